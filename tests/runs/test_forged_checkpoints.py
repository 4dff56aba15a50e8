"""A checkpoint with the right checksum may still be forged: none makes a run fail without a word,
or end with results that are not its own."""

import copy

import pytest
import torch

from bntricks.errors import UserError
from bntricks.runs.config import Config
from bntricks.runs.train import train
from bntricks.streams import open_stream
from bntricks.training.checkpoint import NEWEST, Checkpoints, pack, unpack

pytestmark = pytest.mark.fault

LITTLE = {"images_per_class": 4, "width": 2, "stages": 2, "blocks": 1, "batch": 4, "memory": 8}
CONFIG = Config(method="er", stream="seq-digits", epochs=2, **LITTLE)


class Stopped(Exception):
    pass


@pytest.fixture(scope="module")
def stream():
    return open_stream("seq-digits", images_per_class=4)


@pytest.fixture(scope="module")
def interrupted(stream, tmp_path_factory):
    """The content of a checkpoint in the middle of the second task."""
    folder = tmp_path_factory.mktemp("run")

    def sink(event):
        if event["event"] == "epoch" and event["task"] == 2:
            raise Stopped

    with pytest.raises(Stopped):
        train(CONFIG, stream, checkpoints=Checkpoints(folder, {}, seconds=0), sink=sink)
    return unpack((folder / NEWEST).read_bytes())


def resumed(content, stream, folder):
    (folder / NEWEST).write_bytes(pack(content))
    return train(CONFIG, stream, checkpoints=Checkpoints(folder, {}))


def test_a_checkpoint_that_was_not_touched_is_gone_on_from(interrupted, stream, tmp_path):
    outcome = resumed(interrupted, stream, tmp_path)
    assert outcome.accuracy == train(CONFIG, stream).accuracy


FORGERIES = [
    ("step", "x"),
    ("step", -1),
    ("place.lesson", 10**9),
    ("place.epoch", 3),
    ("place.order", torch.zeros(3)),
    ("place.phi", {}),
    ("place.phi.bn.var", torch.zeros(9)),
    ("measured.accuracy", [[]]),
    ("measured.accuracy.0.0", 101.0),
    ("measured.within.4", [None]),
    ("measured.untrained", [50.0]),
    ("measured.just_before.1", 101.0),
    ("measured.epochs", [{"task": 0, "epoch": 1, "accuracy": []}]),
    ("measured.confusion", {"-1": {"0": 1}}),
    ("measured.train_seconds", [1.0] * 3),
    ("measured.train_seconds.0", "x"),
    ("learner", None),
    ("learner.lesson.new.0", 7),
    ("learner.lesson.t", 1),
    ("learner.lesson.size", 0),
    ("learner.cost.steps", {}),
    ("learner.cost", {"other": 1}),
    ("learner.since_skip", "x"),
    ("learner.teacher", {"a": torch.zeros(1)}),
    ("learner.recorded", torch.zeros(3)),
    ("learner.net", {}),
    ("learner.net.bn\nweight", torch.zeros(1)),
    ("learner.generators.order", torch.zeros(5)),
    ("learner.memory", None),
    ("learner.memory.x", torch.zeros(8, 1, 9, 9, dtype=torch.uint8)),
    ("learner.memory.x", torch.zeros(8, 1, 8, 8)),
    ("learner.memory.y", torch.full((8,), 10)),
    ("learner.memory.y", torch.zeros(8, 1, dtype=torch.int64)),
    ("learner.memory.offered", -1),
    ("learner.memory.filled", 9),
]


@pytest.mark.parametrize(("where", "value"), FORGERIES)
def test_a_forged_value_is_refused_in_one_line(interrupted, stream, tmp_path, where, value):
    forged = copy.deepcopy(interrupted)
    *path, last = where.split(".")
    inner = forged["state"]
    for key in path:
        inner = inner[int(key) if key.isdecimal() else key]
    inner[int(last) if last.isdecimal() else last] = value
    with pytest.raises(UserError, match="the checkpoint does not fit this run") as refusal:
        resumed(forged, stream, tmp_path)
    assert refusal.value.remedy == "force"
    assert "\n" not in str(refusal.value)
