"""`bnt check`, on the CPU and on devices that are not there."""

import json
import math

import pytest
import torch

from bntricks.errors import UserError
from bntricks.runs import check as checks
from bntricks.runs.check import check_on
from bntricks.system.pretend import pretend

QUICK = ["resume", "model"]


def test_the_cpu_is_as_far_from_itself_as_nothing():
    rows = list(check_on("cpu", parts=["methods", *QUICK], methods=["er-bnt", "gem"]))
    assert [(row.part, row.name) for row in rows][:2] == [("methods", "er-bnt"), ("methods", "gem")]
    assert {row.outcome for row in rows} == {"passed"}
    assert {row.difference for row in rows} == {0.0}


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_pretended_device_passes(bnt, kind):
    with pretend(kind):
        done = bnt("check", "--device", kind, "--parts", "methods", *QUICK, "--methods", "er-bnt")
    assert done.code == 0, done.err
    assert done.out.count("passed") == 3


def test_a_device_that_computes_something_else_fails(bnt, monkeypatch):
    def spoiled(config, stream):
        learner, waits = lessons(config, stream)
        if config.method == "er-bnt":
            torch.nn.init.zeros_(learner.net.linear.weight)
            monkeypatch.setattr(checks, "_lessons", lessons)  # the CPU's turn
        return learner, waits

    lessons = checks._lessons
    monkeypatch.setattr(checks, "_lessons", spoiled)
    done = bnt("check", "--parts", "methods", "--methods", "sgd", "er-bnt", "--json")
    assert done.code == 1
    assert done.err == "bnt: 1 of 2 checks failed: methods er-bnt\n"
    table = json.loads(done.out)
    assert [row["outcome"] for row in table["rows"]] == ["passed", "failed"]
    assert table["rows"][1]["difference"] > checks.CLOSE


def test_a_check_that_raises_fails_with_a_line_and_the_others_go_on(monkeypatch):
    def failing(device):
        raise RuntimeError("no kernel image is available\nfor execution")

    monkeypatch.setattr(checks, "_resume", failing)
    first, second = check_on("cpu", parts=QUICK)
    assert (first.outcome, first.note) == ("failed", "no kernel image is available")
    assert second.outcome == "passed"


def test_too_many_waits_fail(monkeypatch):
    lessons = checks._lessons
    monkeypatch.setattr(checks, "_lessons", lambda *how: (lessons(*how)[0], 3.0))
    [row] = check_on("cpu", parts=["methods"], methods=["sgd"])
    assert (row.outcome, row.note) == ("failed", "a step waits 3 times, where 2 would do")


def test_what_this_machine_does_not_have_is_not_a_failure():
    with pretend("cuda"):
        [row] = check_on("cuda", parts=["ranks"])
    assert (row.outcome, row.note) == ("not here", "two processes need two GPUs, and there is one")


@pytest.mark.parametrize(("kind", "name"), [("cuda", "cuda:0"), ("mps", "mps")])
def test_one_gpu_is_not_shared_by_two_processes(kind, name):
    with pretend(kind):
        [row] = check_on(name, parts=["ranks"])
    assert row.outcome == "not here"
    assert "two processes do not share one GPU" in row.note


def test_a_missing_device_or_method_is_refused_in_a_line(refused):
    refused("check", "--device", "cuda", words=["--device cuda", "no such device"])
    refused("check", "--methods", "er-bnx", words=["er-bnx", "did you mean er-bnt"])
    with pytest.raises(UserError):
        list(check_on("tpu"))


@pytest.mark.slow
def test_every_check_passes_on_the_cpu_or_says_why_it_is_not_here():
    parts = [part for part in checks.PARTS if part != "compile"]  # which takes minutes
    rows = list(check_on("cpu", parts=parts))
    assert [row for row in rows if row.outcome == "failed"] == []
    assert all(row.difference is None or math.isfinite(row.difference) for row in rows)
    assert {row.part for row in rows} == set(parts)
