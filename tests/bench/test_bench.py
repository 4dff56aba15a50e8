"""The benchmark measures what it says; how fast anything is, no test asks."""

import json
from dataclasses import asdict

import pytest
import torch

from bntricks.bench import PARTS, Settings, measure
from bntricks.bench.epochs import network_clock, one_task
from bntricks.bench.plain_pytorch import plain_evaluation, plain_steps
from bntricks.bench.steps import learner_in_fourth_task
from bntricks.cli.bench import bench as bench_command
from bntricks.methods import make
from bntricks.networks.norms import SCHEMES
from bntricks.networks.resnet import ResNet
from bntricks.training.optimisers import GradientDescent

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
def test_the_command_measures_the_parts_it_is_asked_for(bnt):
    sized = ["--width", "1", "--rounds", "6"]
    done = bnt("bench", "--parts", "evaluation", "checkpoint", *sized, "--json")
    assert done.code == 0, done.err
    table = json.loads(done.out)
    assert [each["part"] for each in table["rows"]] == ["evaluation", "checkpoint"]
    assert (table["width"], table["rounds"]) == (1, 6)
    shown = bnt("bench", "--parts", "checkpoint", *sized)
    assert "medians of 6 rounds" in shown.out
    assert "of 120 s of training" in shown.out


def test_an_interrupt_shows_the_parts_measured_before_it(monkeypatch, capsys):
    def interrupted(settings, report):
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
@pytest.mark.journey
def test_a_wrong_option_is_a_clear_line(bnt, flags):
    done = bnt("bench", *flags)
    assert done.code == 2
    assert flags[1] in done.err
    assert "Traceback" not in done.err
