"""Measure a run: on every task so far after each task, on each task before it is learned and, if
requested, after every epoch. Measuring changes nothing that learning depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bntricks.recipes.corrections import Corrected
from bntricks.runs.record.measurements import Confusion
from bntricks.streams import Stream, Task
from bntricks.training.learner import Learner
from bntricks.training.readings import Readings

Measured = list[list[float | None]]


@dataclass
class Outcome:
    """A trained learner, and the accuracies measured on the way: R[i][j] on task j after task i,
    over all classes (Class-IL) and among the task's own (Task-IL)."""

    learner: Learner
    reader: Readings | None
    accuracy: Measured
    within: Measured
    readings: dict[str, dict[str, Measured]] | None = None
    """The same two matrices by the name of each reading; None if they were not requested."""
    untrained: list[float | None] = field(default_factory=list)
    """Within each task, before any was learned; empty if not measured."""
    just_before: list[float | None] = field(default_factory=list)
    """The same after all earlier tasks were learned."""
    epochs: list[dict[str, Any]] = field(default_factory=list)
    """After every epoch: the task, the epoch and the accuracy on each task so far."""
    confusion: Confusion = field(default_factory=dict)
    """After the last task."""
    train_seconds: list[float] = field(default_factory=list)
    evaluate_seconds: list[float] = field(default_factory=list)

    @classmethod
    def unmeasured(cls, learner: Learner, tasks: int, reader: Readings | None) -> Outcome:
        outcome = cls(learner, reader, _empty(tasks), _empty(tasks))
        if reader is not None:
            outcome.readings = {
                name: {"accuracy": _empty(tasks), "within": _empty(tasks)}
                for name in reader.methods
            }
        return outcome


def foresees(learner: Learner) -> bool:
    """Whether it has scores for classes that it has not finished learning: not if it must be fitted
    to a finished task first."""
    return learner.method.classify.fits == "never" and not learner.method.joint


def before_training(outcome: Outcome, stream: Stream) -> None:
    """Measure each task but the first under the initial weights."""
    if len(stream) > 1 and foresees(outcome.learner):
        outcome.untrained = [None, *(evaluate(outcome.learner, task)[1] for task in stream[1:])]
        outcome.just_before = [None] * len(stream)


def after_task(outcome: Outcome, stream: Stream, index: int) -> None:
    """Measure all tasks so far, and the next one."""
    last = index == len(stream) - 1
    for j, task in enumerate(stream[: index + 1]):
        scores = outcome.learner.scores(task.test.x)
        predicted = _predict(scores, task)
        outcome.accuracy[index][j], outcome.within[index][j] = _percent(predicted, task)
        for name, own in (outcome.readings or {}).items():
            assert outcome.reader is not None
            read = _predict(_read(outcome.reader.read_by(name), task, scores), task)
            own["accuracy"][index][j], own["within"][index][j] = _percent(read, task)
        if last:
            _count(outcome.confusion, task.test.y, predicted[0])
    if outcome.just_before and not last:
        outcome.just_before[index + 1] = evaluate(outcome.learner, stream[index + 1])[1]


def after_epoch(outcome: Outcome, stream: Stream, index: int, epoch: int) -> list[float]:
    """Measure all tasks so far, over all classes; epochs count from 1."""
    accuracy = [evaluate(outcome.learner, task)[0] for task in stream[: index + 1]]
    outcome.epochs.append({"task": index + 1, "epoch": epoch, "accuracy": accuracy})
    return accuracy


def evaluate(learner: Learner, task: Task) -> tuple[float, float]:
    """Measure accuracy in percent on a task's test images: over all classes and within the task."""
    return _percent(_predict(learner.scores(task.test.x), task), task)


def _empty(tasks: int) -> Measured:
    return [[None] * tasks for _ in range(tasks)]


def _read(other: Learner, task: Task, scores: Tensor) -> Tensor:
    """Score a task's test images by a reading, without a forward pass if it only rescores."""
    classify = other.method.classify
    if not isinstance(classify, Corrected):
        return other.scores(task.test.x)
    return classify.rescored({key: t.cpu() for key, t in other.state.fitted.items()}, scores)


def _predict(scores: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    classes = torch.tensor(task.classes)
    return scores.argmax(1), classes[scores[:, classes].argmax(1)]


def _percent(predicted: tuple[Tensor, Tensor], task: Task) -> tuple[float, float]:
    hits = [(p == task.test.y).double().mean().item() for p in predicted]
    return 100 * hits[0], 100 * hits[1]


def _count(confusion: Confusion, true: Tensor, predicted: Tensor) -> None:
    pairs, counts = torch.unique(torch.stack([true, predicted], 1), dim=0, return_counts=True)
    for (label, taken_for), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        row = confusion.setdefault(label, {})
        row[taken_for] = row.get(taken_for, 0) + count
