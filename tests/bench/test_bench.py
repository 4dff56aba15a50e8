"""The benchmark measures what it says; how fast anything is, no test asks."""

import itertools
import json
import os
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
import torch

from bntricks.bench import PARTS, Setting, bench
from bntricks.bench.epochs import network_clock, one_task
from bntricks.bench.raw import raw_evaluation, raw_steps
from bntricks.bench.rounds import interleaved, interval, row
from bntricks.bench.scaling import Study
from bntricks.bench.scaling import bench as measure_scaling
from bntricks.bench.steps import prepared
from bntricks.cli.bench import bench as bench_command
from bntricks.methods import make
from bntricks.networks.resnet import ResNet
from bntricks.training.optimisers import Descent

TINY = Setting(width=2, narrow=3, side=8, batches=2, rounds=3, methods=("er", "gss"))


def silent(what, done, total):
    pass


def test_a_round_measures_each_once_in_turn_and_the_first_round_is_not_counted():
    ticks, called = itertools.count(), []
    subjects = {name: lambda name=name: called.append(name) for name in ("a", "b")}
    took = interleaved(subjects, 2, silent, what="ticks", clock=lambda: float(next(ticks)))
    assert called == ["a", "b"] * 3
    assert {name: list(seconds) for name, seconds in took.items()} == {"a": [1, 1], "b": [1, 1]}


def test_the_interval_covers_the_median_19_times_out_of_20():
    random = np.random.default_rng(0)
    draws = random.lognormal(size=(4000, 15))
    inside = [low <= 1.0 <= high for low, high in map(interval, draws)]
    assert 0.94 <= np.mean(inside) <= 0.99


@pytest.mark.parametrize(
    ("ratios", "met"),
    [
        ([0.9, 1.0, 1.1], True),
        ([0.9, 1.02, 1.1], True),  # within 3%, and the interval reaches below
        ([0.9, 1.04, 1.1], False),  # reaches below, but is too far above
        ([1.01, 1.02, 1.03], False),  # within 3%, but never below
    ],
)
def test_a_bound_is_met_by_the_interval_and_the_median_together(ratios, met):
    found = row("part", "name", np.array(ratios), "×", bound=1.0)
    assert found.met is met
    assert row("part", "name", np.array(ratios), "×").met is None


def test_every_bound_has_a_row_of_its_own():
    rows = list(map(asdict, bench(TINY)))
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


def test_the_network_clock_hears_every_pass_and_leaves_no_trace():
    before = ResNet.forward, torch.Tensor.backward, Descent.step
    work = raw_steps(2, 8, passes=2, batch=4, steps=1)
    with network_clock() as clock:
        work()
        watched = ResNet.forward, torch.Tensor.backward, Descent.step
    assert all(now is not then for now, then in zip(watched, before, strict=True))
    assert clock.seconds > 0
    heard = clock.seconds
    work()
    assert clock.seconds == heard
    assert (ResNet.forward, torch.Tensor.backward, Descent.step) == before


def test_an_epoch_has_the_batches_it_promises_and_replays_a_full_memory():
    stream = one_task(Setting(batches=16, side=8))
    assert len(stream[0].train) == 16 * 32 >= stream.memory
    learner, x, y = prepared(make("er"), TINY)
    assert learner.state.lesson.t == 4
    assert learner.memory.filled == learner.memory.capacity
    assert len(x) == len(y) == 32


def test_the_plain_loop_makes_the_outputs_of_the_network():
    torch.manual_seed(0)
    net = ResNet(3, width=2, blocks=1, stages=1).eval()
    x = torch.randn(70, 3, 8, 8)
    found = raw_evaluation(net, x)()
    assert torch.allclose(found, net(x), atol=1e-6)
    assert not found.requires_grad


def bnt(*flags):
    command = [sys.executable, "-m", "bntricks", "bench", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_the_command_measures_the_parts_it_is_asked_for():
    sized = ["--width", "1", "--rounds", "6"]
    done = bnt("--parts", "evaluation", "checkpoint", *sized, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["part"] for each in found["rows"]] == ["evaluation", "checkpoint"]
    assert (found["width"], found["rounds"]) == (1, 6)
    shown = bnt("--parts", "checkpoint", *sized)
    assert "medians of 6 rounds" in shown.stdout
    assert "of 120 s of training" in shown.stdout


def test_an_interrupt_shows_the_parts_measured_before_it(monkeypatch, capsys):
    def interrupted(setting, report):
        raise SystemExit(130)

    monkeypatch.setitem(PARTS, "herding", interrupted)
    for json_too in (False, True):
        with pytest.raises(SystemExit):
            bench_command(
                parts=("checkpoint", "herding", "start-up"), width=1, rounds=6, json=json_too
            )
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
def test_a_wrong_wish_is_a_clear_line(flags):
    done = bnt(*flags)
    assert done.returncode == 2
    assert flags[1] in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_scaling_compares_workers_and_tells_a_workers_memory():
    before = os.environ["BNT_CACHE"]
    study = Study(rounds=1, runs=1, epochs=1, width=2, images=(40, 80), side=8)
    rows = list(map(asdict, measure_scaling(study, silent)))
    assert [(each["unit"], each["bound"]) for each in rows] == [
        ("× one worker", 0.55),
        ("× one worker of two threads", 1.0),
        ("MB at peak", None),
        ("MB at peak", None),
        *([("of the growth of the images", 0.1)] if sys.platform == "linux" else []),
    ]
    assert all(each["ratio"] > 0 for each in rows[:4])
    assert os.environ["BNT_CACHE"] == before
