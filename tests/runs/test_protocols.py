"""Runs under other protocols than the paper's: whose they are, who refuses, and what they mean."""

import pytest

from bntricks.errors import UserError
from bntricks.plugins.imports import import_code
from bntricks.report.commands import run_command
from bntricks.runs.config import Config
from bntricks.runs.folder import run
from bntricks.runs.resolve import made_with, resolve
from bntricks.runs.train import build, train
from bntricks.training.checkpoint import Checkpoints
from helpers.own_code import forgetful  # noqa: F401 (a fixture)

pytestmark = pytest.mark.law

SMALL = {
    "stream": "seq-digits",
    "width": 2,
    "stages": 2,
    "blocks": 1,
    "images_per_class": 20,
    "memory": 30,
    "epochs": 1,
}


def resolved(**options):
    stream, config = resolve(Config(**{**SMALL, **options}), None)
    return config.identity(stream.fingerprint), config, stream


CHOICES = [
    {"class_order": "3"},
    {"class_order": "9,8,7,6,5,4,3,2,1,0"},
    {"first": 4, "increment": 3},
    {"classes_per_task": 5},
    {"tasks": ("0,1,2", "3,4,5,6,7,8,9")},
    {"blurry": 0.1},
    {"optimiser": "sgdm"},
    {"optimiser": "sgdm", "sgd_momentum": 0.5},
    {"optimiser": "adam"},
    {"weight_decay": 1e-4},
    {"schedule": "cosine"},
    {"schedule": "steps"},
    {"clip": 1.0},
    {"net": "resnet32"},
]


def test_each_choice_is_another_run():
    names = [resolved(**choice)[0] for choice in ({}, *CHOICES)]
    assert len(set(names)) == len(names)


def test_one_run_has_one_name_however_it_was_asked_for():
    plain, momentum = resolved()[0], resolved(optimiser="sgdm")[0]
    assert resolved(net="resnet18")[0] == plain
    assert resolved(optimiser="sgdm", sgd_momentum=0.9)[0] == momentum
    assert resolved(net="resnet32", width=16)[0] == resolved(net="resnet32")[0]


def test_from_python_an_order_is_a_number_or_a_list():
    assert Config(class_order=1993) == Config(class_order="1993")
    order = Config(class_order=["b, c", "a"])
    assert order.rearrangement["class_order"] == ["b, c", "a"]
    assert Config(**order.model_dump(mode="json")) == order
    assert "--class-order 3" in run_command(Config(class_order=3))


@pytest.mark.parametrize("method", ["lwf", "icarl", "icarl-bnt", "icarl-concat"])
def test_methods_that_need_disjoint_classes_refuse_blurry_tasks(method):
    with pytest.raises(UserError, match="each class must come in one task alone") as caught:
        resolved(method=method, blurry=0.1)
    assert (caught.value.option, caught.value.value) == ("blurry", 0.1)
    resolved(method=method, first=4, increment=3, class_order="1")  # which it can do


@pytest.mark.parametrize("method", ["er-bnt", "er-even-bnt", "gem", "fdr-bnt", "gss", "joint"])
def test_blurry_and_unequal_tasks_are_learned_and_tested_by_their_own_classes(method):
    _, config, stream = resolved(method=method, first=4, increment=3, blurry=0.2)
    outcome = train(config, stream)
    assert [len(task.classes) for task in stream] == [4, 3, 3]
    assert None not in outcome.accuracy[-1]
    assert len(outcome.accuracy) == 3
    assert outcome.learner.state.lesson.visitors == (() if method == "joint" else tuple(range(7)))


def test_in_a_single_pass_the_memory_is_offered_every_image_once():
    _, config, stream = resolved(method="er-bnt")
    memory = train(config, stream).learner.memory
    assert memory.offered == stream.counts[0] == 200
    assert memory.distinct == len(memory) == 30
    _, config, stream = resolved(method="er-bnt", epochs=3)
    assert train(config, stream).learner.memory.offered == 600


def test_what_is_chosen_reaches_the_learner():
    chosen = {"optimiser": "sgdm", "sgd_momentum": 0.5, "weight_decay": 0.25, "clip": 2.0}
    _, config, stream = resolved(method="icarl", hyper={"delta": 0.125}, **chosen)
    learner = build(config, stream)
    for _ in range(2):
        optimiser = learner.state.optimiser
        assert (optimiser.momentum, optimiser.decay) == (0.5, 0.5)  # on top of δ‖θ‖²
        learner.grow(12)
    assert learner.state.options.clip == 2.0


def test_a_run_that_was_saved_before_there_was_a_choice_goes_on(tmp_path):
    stream, config = resolve(Config(**SMALL), None)
    folder = tmp_path / config.identity(stream.fingerprint)
    folder.mkdir()
    younger = {"even_batches", "deterministic", "clip", "blurry", "imports"}
    known = made_with(config, stream)
    assert younger <= known.keys()

    class Older(Checkpoints):
        def save(self, state):
            del state["learner"]["lesson"]["visitors"]
            super().save(state)
            raise KeyboardInterrupt

    older = {key: value for key, value in known.items() if key not in younger}
    with pytest.raises(KeyboardInterrupt):
        train(config, stream, checkpoints=Older(folder, older, seconds=0))
    events = []
    record = run(Config(**SMALL), out=tmp_path, sink=events.append)
    assert "resumed" in {event["event"] for event in events}
    assert record.path == folder


@pytest.mark.usefixtures("forgetful")
def test_a_network_of_ones_own_is_trained_and_its_code_is_part_of_the_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = """
from torch import nn
def build(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.BatchNorm1d(9), nn.Linear(9, classes))
"""
    (tmp_path / "own_net_a.py").write_text(code)
    (tmp_path / "own_net_b.py").write_text(code + "\n# changed\n")
    record = run(Config(**SMALL, net="own_net_a:build"), out=tmp_path / "runs")
    assert record.config.net == "own_net_a:build"
    assert record.config.width == 64  # not this network's
    assert run_command(record.config).startswith("bnt run --import own_net_a ")
    codes = [resolved(net=f"own_net_{each}:build")[1].imports for each in "ab"]
    assert codes[0] == record.config.imports
    assert codes[0]["own_net_a"] != codes[1]["own_net_b"]
    with pytest.raises(UserError, match="this run uses own_net_a"):
        resolve(record.config, None)  # a record names it, and nobody else
    import_code("own_net_a")
    assert resolve(record.config, None)[1] == record.config
