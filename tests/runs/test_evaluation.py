"""What a run measures beside R follows from the same predictions, and changes nothing."""

import json

import pytest

from bntricks.errors import UserError
from bntricks.runs.config import Config
from bntricks.runs.evaluation import evaluate
from bntricks.runs.record import Record
from bntricks.runs.resolve import resolve
from bntricks.runs.train import build, train

LITTLE = {"width": 2, "stages": 2, "blocks": 1, "images_per_class": 12, "memory": 20, "epochs": 3}
CONFIG = Config(method="er-bnt", stream="seq-digits", **LITTLE)


@pytest.fixture(scope="module")
def stream():
    return resolve(CONFIG, None)[0]


@pytest.fixture(scope="module")
def outcome(stream):
    return train(CONFIG, stream, epoch_accuracy=True)


def test_looking_after_every_epoch_changes_no_bit_and_ends_at_the_row_of_r(outcome, stream):
    plain = train(CONFIG, stream)
    weights = [each.learner.net.state_dict() for each in (outcome, plain)]
    assert all(tensor.equal(weights[1][name]) for name, tensor in weights[0].items())
    assert (plain.accuracy, plain.epochs) == (outcome.accuracy, [])
    assert [(row["task"], row["epoch"]) for row in outcome.epochs] == [
        (task, epoch) for task in range(1, 6) for epoch in range(1, 4)
    ]
    for row in outcome.epochs:
        assert len(row["accuracy"]) == row["task"]
        if row["epoch"] == CONFIG.epochs:
            assert row["accuracy"] == outcome.accuracy[row["task"] - 1][: row["task"]]


def test_the_untrained_network_is_measured_within_each_task_but_the_first(outcome, stream):
    fresh = build(CONFIG, stream)
    assert outcome.untrained == [None, *(evaluate(fresh, task)[1] for task in stream[1:])]
    assert outcome.just_before[0] is None
    assert None not in outcome.just_before[1:]


def test_confusion_counts_every_test_image_once(outcome, stream):
    counts = {true: sum(row.values()) for true, row in outcome.confusion.items()}
    labels = [label for task in stream for label in task.test.y.tolist()]
    assert counts == {label: labels.count(label) for label in range(10)}
    for task, accuracy in zip(stream, outcome.accuracy[-1], strict=True):
        right = sum(outcome.confusion[label].get(label, 0) for label in task.classes)
        assert 100 * right / len(task.test) == pytest.approx(accuracy)


@pytest.mark.parametrize("method", ["icarl", "joint"])
def test_what_foresees_no_class_has_no_forward_transfer(method, stream):
    config = CONFIG.model_copy(update={"method": method, "epochs": 1})
    assert train(config, stream).untrained == []


def test_a_method_that_waits_for_the_end_of_a_task_has_no_accuracy_after_an_epoch(stream):
    with pytest.raises(UserError, match="icarl reads labels off what it keeps") as refusal:
        train(CONFIG.model_copy(update={"method": "icarl"}), stream, epoch_accuracy=True)
    assert refusal.value.option == "epoch_accuracy"


def test_a_record_whose_confusion_contradicts_its_accuracy_is_refused(outcome, stream):
    from bntricks.runs.describe import describe

    record = describe(CONFIG, stream, outcome)
    values = json.loads(json.dumps(record.to_json()))
    assert Record.from_json(values) == record
    assert values["class_accuracy"] == record.class_accuracy
    with pytest.raises(ValueError, match="class_accuracy does not follow"):
        Record.from_json({**values, "class_accuracy": [1.0] * 10})
    row = values["confusion"]["0"]
    row["0"] = row.get("0", 0) + 1
    with pytest.raises(ValueError, match="confusion contradicts the accuracy matrix"):
        Record.from_json(values)
