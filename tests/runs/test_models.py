"""A run that was saved is a model like any other, and the same run as before."""

import pytest
import torch

from bntricks.batch import Batch
from bntricks.errors import UserError
from bntricks.model.model import Model
from bntricks.runs import models
from bntricks.runs.config import Config
from bntricks.runs.folder import run
from bntricks.runs.resolve import resolve
from bntricks.runs.train import build
from bntricks.streams import Stream

CONFIG = Config(
    method="er-bnt", stream="seq-digits", width=2, blocks=1, stages=2, images_per_class=8, epochs=1
)


@pytest.fixture(scope="module")
def stream():
    return resolve(CONFIG, None)[0]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return run(CONFIG, out=tmp_path_factory.mktemp("runs"), save="every task")


def test_the_saved_model_answers_as_the_run_did(saved, stream):
    model = Model.load(saved.path / models.NAME)
    assert model.groups == (("0", "1"), ("2", "3"), ("4", "5"), ("6", "7"), ("8", "9"))
    for task, accuracy in zip(stream, saved.accuracy[-1], strict=True):
        predicted = model.learner.predict(task.test.x)
        assert 100 * (predicted == task.test.y).double().mean() == pytest.approx(accuracy)


def test_a_model_of_an_earlier_task_knows_the_classes_so_far(saved):
    model = Model.load(models.path_in(saved.path, 2))
    assert model.classes == ("0", "1", "2", "3")
    assert set(model.learner.memory.y[: len(model.learner.memory)].tolist()) <= {0, 1, 2, 3}


def test_a_model_knows_classes_of_which_some_images_came_early(tmp_path):
    blurry = CONFIG.model_copy(update={"blurry": 0.5})
    record = run(blurry, out=tmp_path, save="every task")
    first = Model.load(models.path_in(record.path, 1))
    assert first.classes[:2] == ("0", "1")
    memory = first.learner.memory
    assert len(first.classes) > 2
    assert 0 <= memory.y[: len(memory)].min() <= memory.y[: len(memory)].max() < len(first.classes)
    assert sorted(Model.load(record.path / models.NAME).classes) == [*map(str, range(10))]
    early = sum(task.images for task in first.metadata.taught)
    assert early < 80  # of all images, those that came so far


def test_saving_changes_neither_the_name_nor_the_bits(saved, tmp_path):
    plain = run(CONFIG, out=tmp_path)
    assert (plain.path.name, plain.digest) == (saved.path.name, saved.digest)
    with pytest.raises(UserError, match="finished without saving its network") as refusal:
        run(CONFIG, out=tmp_path, save="end")
    assert refusal.value.remedy == "force"
    assert not run(CONFIG, out=tmp_path, save="end", force=True).already_there
    assert run(CONFIG, out=tmp_path, save="end").already_there


def test_classes_that_came_in_another_order_keep_their_names(stream, tmp_path):
    """Tasks 4 and 2 alone: their classes are 6, 7, 2 and 3, and get places 0 to 3."""
    learner = build(CONFIG, stream)
    mixed = Stream(**{name: getattr(stream, name) for name in stream.__dataclass_fields__})[3:0:-2]
    for task in mixed:
        learner.begin(task.classes, task.train.x, task.train.y)
        learner.memory.add(Batch(task.train.x, task.train.y))
        learner.end(task.train.x, task.train.y)
    models.save(learner, mixed, 1, config=CONFIG, path=tmp_path / "m")
    model = Model.load(tmp_path / "m")
    assert model.classes == ("6", "7", "2", "3")
    x = stream[3].test.x
    torch.testing.assert_close(model.scores(x), learner.scores(x)[:, [6, 7, 2, 3]])
    places = torch.tensor([-1, -1, 2, 3, -1, -1, 0, 1, -1, -1])
    filled = len(learner.memory)
    assert model.learner.memory.y[:filled].equal(places[learner.memory.y[:filled]])


def test_a_network_of_ones_own_code_is_saved_as_an_adopted_one(tmp_path):
    config = CONFIG.model_copy(update={"method": "er", "norm": "gn"})
    record = run(config, out=tmp_path, save="end")
    with pytest.raises(UserError, match="whose code is not in the file"):
        Model.load(record.path / models.NAME)
