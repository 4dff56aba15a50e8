"""Measurements of a run beside R: accuracy before a task is learned, accuracy after each epoch, and
the confusion matrix. They are plain numbers, which `evaluation.py` measures. Needs no torch."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Points = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]
"""A difference of percentages."""
Label = Annotated[int, Field(ge=0)]
ROUNDING = 1e-6
"""Largest error of a number that must follow from others."""
FromOne = Annotated[int, Field(ge=1)]
Confusion = dict[Label, dict[Label, FromOne]]
"""Counts of test images by true class and predicted class. Pairs that never occur are left out, so
that a thousand classes stay small."""


class RecordPart(BaseModel):
    """A frozen part of a record, without extra fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class BeforeLearning(RecordPart):
    """Accuracy on each task before it is learned, within the task (Task-IL): over all classes, a
    network hardly ever predicts one that it has not learned."""

    untrained: tuple[Percent | None, ...]
    """With the initial weights."""
    just_before: tuple[Percent | None, ...]
    """After all earlier tasks; None for the first."""


class EpochAccuracy(RecordPart):
    """Accuracy on each task so far when an epoch was over."""

    task: FromOne
    epoch: FromOne
    accuracy: tuple[Percent, ...]


def class_accuracy(confusion: Confusion, classes: int) -> list[float | None]:
    """Return accuracy in percent by class, None for classes without test images."""
    return [_recognised(confusion, [label]) for label in range(classes)]


def task_accuracy(confusion: Confusion, tasks: Sequence[Sequence[int]]) -> list[float | None]:
    """Return accuracy in percent by task."""
    return [_recognised(confusion, classes) for classes in tasks]


def _recognised(confusion: Confusion, labels: Iterable[int]) -> float | None:
    rows = [(label, confusion.get(label, {})) for label in labels]
    images = sum(sum(row.values()) for _, row in rows)
    return 100 * sum(row.get(label, 0) for label, row in rows) / images if images else None
