"""Runs that start from the weights of a model, after a base phase that was made once."""

import json

import numpy as np
import pytest
import torch

from bntricks import Config, Request, UserError, from_arrays, run
from bntricks.networks.head import last_linear
from bntricks.report.commands import caveat, run_command
from bntricks.runs.folder import resume
from bntricks.runs.resolve import resolve
from bntricks.runs.start import Start, go_on_from
from bntricks.runs.train import build
from bntricks.training.events import silent
from helpers.command_line import SMALL, bnt, refused

TINY = {"width": 2, "blocks": 1, "stages": 2, "epochs": 2}
METHODS = ("er-bnt", "der++", "gss", "gem", "fdr", "lwf", "cls-er", "icarl", "er-even")


@pytest.fixture(scope="module")
def stream():
    y = np.arange(96) % 6
    x = np.random.default_rng(0).integers(0, 60, (96, 8, 8), np.uint8)
    x[:, 0] += (30 * y)[:, None].astype(np.uint8)
    return from_arrays(x, y, x, y, class_names=list("abcdef"), name="stripes", memory=24)


@pytest.fixture(scope="module")
def base(stream, tmp_path_factory):
    """A run of ER with its model after every task."""
    folder = tmp_path_factory.mktemp("base")
    return run(Config(method="er", **TINY), stream=stream, out=folder, save="every task")


def after(base, task):
    return base.path / f"model-after-task-{task}.safetensors"


def started(base, stream, task, **options):
    start = Start.read(after(base, task))
    learner = build(Config(stream="stripes", **TINY | options), stream)
    return learner, go_on_from(start, learner, stream, epochs=5)


def test_the_network_goes_on_with_the_weights_and_statistics_of_the_model(base, stream):
    learner, over = started(base, stream, 2, method="er", seed=3)
    weights, own = Start.read(after(base, 2)).weights, learner.net.state_dict()
    assert over == 2
    head = [
        name for name, module in learner.net.named_modules() if module is last_linear(learner.net)
    ]
    for name, value in own.items():
        if name.startswith(head[0]):
            assert torch.equal(value[:4], weights[name])
        else:
            assert torch.equal(value, weights[name])
    fresh = build(Config(stream="stripes", method="er", seed=3, **TINY), stream)
    assert torch.equal(own[f"{head[0]}.weight"][4:], last_linear(fresh.net).weight[4:])
    scores = learner.state.outputs(torch.cat([task.train.x[::8] for task in stream[:2]]))
    assert (scores[:, 4:].amax(1) <= scores[:, :4].amax(1) + 1e-5).all()
    assert learner.state.lesson.seen == (0, 1, 2, 3)


def test_a_run_measures_the_model_first_and_then_learns_the_other_tasks(base, stream, tmp_path):
    config = Config(method="er-bnt", seed=1, **TINY)
    record = run(config, stream=stream, out=tmp_path, start=after(base, 1))
    assert record.task_il_accuracy[0] == base.task_il_accuracy[0]
    assert record.steps == 2 * base.steps / 3
    assert record.seconds.train[0] == 0.0
    later = run(config, stream=stream, out=tmp_path, start=after(base, 2))
    assert later.accuracy[0] == (None,) * 3
    assert later.task_il_accuracy[1] == base.task_il_accuracy[1]
    assert later.bwt is None
    plain = run(config, stream=stream, out=tmp_path)
    again = {"start": after(base, 2), "save": "every task"}
    saved = run(config, stream=stream, out=tmp_path / "saved", **again)
    assert {*Start.read(after(saved, 2)).classes} == set("abcd")
    assert run(config, stream=stream, out=tmp_path / "saved", **again).already_there
    assert len({each.path for each in (record, later, plain)}) == 3


@pytest.mark.parametrize("method", METHODS)
def test_every_method_goes_on_as_if_it_had_learned_what_the_model_knows(base, stream, method):
    learner, _ = started(base, stream, 2, method=method)
    memory = learner.memory
    if memory is not None:
        assert set(memory.y[: memory.filled].tolist()) == {0, 1, 2, 3}
        assert set(memory.tasks[: memory.filled].tolist()) == {1, 2}
        if learner.method.memory.fills == "step":
            assert (memory.filled, memory.offered) == (24, 5 * 64)
    if learner.method.teacher == "previous":
        assert learner.state.teacher is not None
    for net in learner.state.averages.values():
        assert torch.equal(last_linear(net).weight, last_linear(learner.net).weight)
    train = stream[2].train
    learner.begin(stream[2].classes, train.x, train.y)
    learner.observe(train.x, train.y, ids=torch.arange(len(train)))
    learner.end(train.x, train.y)
    assert learner.predict(train.x).shape == (32,)


def test_the_weights_decide_the_name_of_the_run_and_their_place_does_not(base, stream, tmp_path):
    copied = tmp_path / "copy.safetensors"
    copied.write_bytes(after(base, 1).read_bytes())

    def named(start):
        return resolve(Config(**TINY), None, stream=stream, start=start)[1].identity("data")

    assert named(after(base, 1)) == named(copied)
    assert len({named(None), named(after(base, 1)), named(after(base, 2))}) == 3


def test_an_interrupted_run_goes_on_to_the_same_bits_with_the_same_weights_only(
    base, stream, tmp_path
):
    config = Config(method="der++-bnt", **TINY)
    whole = run(config, stream=stream, out=tmp_path / "whole", start=after(base, 1))

    class Enough(Exception):
        pass

    def stop(event):
        if event["event"] == "task" and event["task"] == 2:
            raise Enough

    request = Request(out=tmp_path, start=after(base, 1), checkpoint_seconds=0)
    with pytest.raises(Enough):
        run(config, request, stream=stream, sink=stop)
    folder = tmp_path / whole.path.name
    with pytest.raises(UserError, match="was made in Python: give it again"):
        resume(folder)
    with pytest.raises(UserError, match=r"SHA-256 \w+, and these are others: "):
        resume(folder, stream=stream, start=after(base, 2))
    record = resume(folder, stream=stream, sink=silent)
    assert (record.digest, record.accuracy) == (whole.digest, whole.accuracy)


@pytest.mark.parametrize(
    ("options", "task", "message"),
    [
        ({"width": 3}, 1, "does not fit the network of this run: "),
        ({"stages": 3}, 1, "does not fit the network of this run: "),
        ({"method": "joint"}, 1, "learns all tasks at once"),
        ({"first": 3, "increment": 3}, 1, "knows 'a', 'b', which are not the classes of the first"),
    ],
)
def test_a_model_that_cannot_be_gone_on_from_is_refused(
    base, stream, tmp_path, options, task, message
):
    config = Config(**{"method": "er", **TINY, **options})
    with pytest.raises(UserError, match=message) as refusal:
        run(config, stream=stream, out=tmp_path, start=after(base, task))
    assert refusal.value.option == "from"
    assert not list(tmp_path.iterdir())


def test_no_weights_no_run(stream, tmp_path):
    with pytest.raises(UserError, match="starts from weights of SHA-256 aaaaaaaaaaaa: give"):
        run(Config(start="a" * 64, **TINY), stream=stream, out=tmp_path)


def test_the_command_of_a_record_says_what_it_lacks(base, stream, tmp_path):
    record = run(Config(method="er", **TINY), stream=stream, out=tmp_path, start=after(base, 1))
    assert "--from MODEL" in run_command(record.config)
    assert record.config.start in caveat(record)
    assert record.config.start not in run_command(record.config)
    assert "made in Python" in caveat(record)


@pytest.mark.journey
def test_the_command_line_makes_a_base_phase_and_starts_from_it(tmp_path):
    stream = ["--stream", "seq-fashion", "--images-per-class", "12", "--image-size", "8", *SMALL]
    made = json.loads(
        bnt("run", "--method", "er", *stream, "--save-every-task", "--json", cwd=tmp_path).stdout
    )
    model = f"{made['path']}/model-after-task-1.safetensors"
    command = ["run", "--method", "er-bnt", *stream, "--from", model]
    done = json.loads(bnt(*command, "--json", cwd=tmp_path).stdout)
    assert done["task_il_accuracy"][0] == made["task_il_accuracy"][0]
    again = bnt("resume", done["path"], "--from", model, "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["already_there"]
    refused(bnt(*command[:-1], "no.safetensors", cwd=tmp_path), "cannot read no.safetensors")
    (tmp_path / "torn.safetensors").write_bytes((tmp_path / model).read_bytes()[:999])
    refused(bnt(*command[:-1], "torn.safetensors", cwd=tmp_path), "cannot use the model torn")
