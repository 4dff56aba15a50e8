"""The benchmark measures what it says; how fast anything is, no test asks."""

import json
import subprocess
import sys
from dataclasses import asdict

import pytest
import torch

import bench
from bench import PARTS, measure
from bntricks.methods import make
from bntricks.networks.norms import SCHEMES
from bntricks.networks.resnet import ResNet
from bntricks.training.optimisers import GradientDescent
from costs.epochs import network_clock, one_task
from costs.plain_pytorch import plain_evaluation, plain_steps
from costs.settings import Settings
from costs.steps import learner_in_fourth_task

TINY = Settings(width=2, narrow=3, side=8, batches=2, rounds=3, methods=("er", "gss"))


def test_every_bound_has_a_row_of_its_own():
    rows = list(map(asdict, measure(TINY)))
    assert {each["part"] for each in rows} == {
        "step", "epoch", "evaluation", "herding", "checkpoint", "start-up", "memory kept"
    }  # fmt: skip
    bounds = {(each["part"], each["name"]): each["bound"] for each in rows}
    assert bounds["epoch", "er-bnt"] == bounds["epoch", "er"] == 1.03
    assert bounds["epoch", "er-bnt: all but the network, width 2"] == 0.02
    assert bounds["epoch", "er-bnt: all but the network, width 3"] == 0.15
    assert bounds["evaluation", "scores"] == 0.85
    assert all(each["low"] <= each["ratio"] <= each["high"] for each in rows)
    shares = [each["ratio"] for each in rows if each["unit"] == "of the epoch"]
    assert all(0 < share < 1 for share in shares)
    json.dumps(rows, allow_nan=False)


def test_every_norm_is_measured_against_batchnorm():
    rows = list(measure(Settings(width=4, side=8, rounds=2), parts=["norms"]))
    assert {row.name for row in rows} == SCHEMES.keys() - {"bn"}
    assert {row.name: row.bound for row in rows if row.bound == 1.25}.keys() == {
        *("tbbn", "adab2n", "gn+ws")
    }
    assert all(row.ratio > 0 and row.unit == "× bn" for row in rows)
    assert all("the layer alone" in row.note for row in rows)


def test_the_network_clock_times_every_pass_and_leaves_no_trace():
    before = ResNet.forward, torch.Tensor.backward, GradientDescent.step
    work = plain_steps(2, 8, passes=2, batch=4, steps=1)
    with network_clock() as clock:
        work()
        watched = ResNet.forward, torch.Tensor.backward, GradientDescent.step
    assert all(now is not then for now, then in zip(watched, before, strict=True))
    assert clock.seconds > 0
    counted = clock.seconds
    work()
    assert clock.seconds == counted
    assert (ResNet.forward, torch.Tensor.backward, GradientDescent.step) == before


def test_an_epoch_has_the_batches_it_promises_and_replays_a_full_memory():
    stream = one_task(Settings(batches=16, side=8))
    assert len(stream[0].train) == 16 * 32 >= stream.memory
    learner, x, y = learner_in_fourth_task(make("er"), TINY)
    assert learner.state.lesson.t == 4
    assert learner.memory.filled == learner.memory.capacity
    assert len(x) == len(y) == 32


def test_the_plain_loop_makes_the_outputs_of_the_network():
    torch.manual_seed(0)
    net = ResNet(3, width=2, blocks=1, stages=1).eval()
    x = torch.randn(70, 3, 8, 8)
    outputs = plain_evaluation(net, x)()
    assert torch.allclose(outputs, net(x), atol=1e-6)
    assert not outputs.requires_grad


@pytest.mark.journey
def test_the_command_measures_the_parts_it_is_asked_for(capsys):
    sized = ["--width", "1", "--rounds", "6"]
    bench.main(["--parts", "evaluation", "checkpoint", *sized, "--json"])
    table = json.loads(capsys.readouterr().out)
    assert [each["part"] for each in table["rows"]] == ["evaluation", "checkpoint"]
    assert (table["width"], table["rounds"]) == (1, 6)
    bench.main(["--parts", "checkpoint", *sized])
    shown = capsys.readouterr().out
    assert "medians of 6 rounds" in shown
    assert "of 120 s of training" in shown


def test_an_interrupt_shows_the_parts_measured_before_it(monkeypatch, capsys):
    def interrupted(settings, report):
        raise KeyboardInterrupt

    monkeypatch.setitem(PARTS, "herding", interrupted)
    flags = ["--parts", "checkpoint", "herding", "start-up", "--width", "1", "--rounds", "6"]
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as stop:
            bench.main(flags + more)
        assert stop.value.code == 130
        shown = capsys.readouterr().out
        assert "of 120 s of training" in shown
        assert "python -c pass" not in shown
    assert [each["part"] for each in json.loads(shown)["rows"]] == ["checkpoint"]


@pytest.mark.parametrize(
    "flags",
    [
        ("--parts", "soup"),
        ("--methods", "soup"),
        ("--rounds", "5"),
        ("--scaling", "--width", "8"),
    ],
)
@pytest.mark.journey
def test_a_wrong_option_is_a_clear_line(capsys, flags):
    with pytest.raises(SystemExit) as stop:
        bench.main(flags)
    said = capsys.readouterr().err + str(stop.value.code)
    assert flags[1] in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_the_script_measures_every_part_against_its_bound(tmp_path):
    flags = ["--width", "2", "--rounds", "6", "--methods", "er", "gss", "--json"]
    command = [sys.executable, bench.__file__, *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    parts = ["step", "epoch", "evaluation", "herding", "checkpoint", "start-up", "memory kept"]
    assert list(dict.fromkeys(row["part"] for row in rows)) == parts
    for row in rows:
        assert row["low"] <= row["ratio"] <= row["high"]
        assert (row["bound"] is None) == (row["met"] is None)
    assert {"er", "gss, gate closed", "gss, gate open"} <= {row["name"] for row in rows}
