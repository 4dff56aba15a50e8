"""What a run measures beside R: accuracy before a task is learned, accuracy after each epoch, and
which class is taken for which. Plain numbers, for the record; `train.py` measures them. Nothing
here needs torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Points = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]
"""A difference of percentages."""
Label = Annotated[int, Field(ge=0)]
FromOne = Annotated[int, Field(ge=1)]
Confusion = dict[Label, dict[Label, FromOne]]
"""By true class, then by the class it was taken for: how many test images. Pairs that never occur
are left out, so that a thousand classes stay small."""


class Part(BaseModel):
    """A value that is part of a record: nothing else is in it, and it does not change."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class BeforeLearning(Part):
    """Accuracy on each task before it is learned, where the task is known (Task-IL): over all
    classes, a network hardly ever names one that it has not met."""

    untrained: tuple[Percent | None, ...]
    """Of the network as it was initialised."""
    just_before: tuple[Percent | None, ...]
    """Once all earlier tasks were learned; None for the first."""


class EpochAccuracy(Part):
    """Accuracy on each task so far when an epoch was over."""

    task: FromOne
    epoch: FromOne
    accuracy: tuple[Percent, ...]


def class_accuracy(confusion: Confusion, classes: int) -> list[float | None]:
    """In percent, of each class; None where there were no test images."""
    return [_recognised(confusion, [label]) for label in range(classes)]


def task_accuracy(confusion: Confusion, tasks: Sequence[Sequence[int]]) -> list[float | None]:
    """In percent, of the classes of each task together."""
    return [_recognised(confusion, classes) for classes in tasks]


def _recognised(confusion: Confusion, labels: Iterable[int]) -> float | None:
    rows = [(label, confusion.get(label, {})) for label in labels]
    images = sum(sum(row.values()) for _, row in rows)
    return 100 * sum(row.get(label, 0) for label, row in rows) / images if images else None
