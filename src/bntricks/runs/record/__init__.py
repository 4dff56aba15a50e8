"""What a run leaves behind: the accuracy matrix R, and how it came about.

R[i][j] is the accuracy in percent on task j after task i (paper, Sec. 3.1); entries that were never
measured are None. A record checks itself wherever it is read: what the file says must follow from
its own matrix and configuration, and its checksum must match. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, Field, model_validator

from bntricks.errors import UserError
from bntricks.runs.config import Config
from bntricks.runs.record.maps import BiasedPhi
from bntricks.runs.record.measurements import (
    BeforeLearning,
    Confusion,
    EpochAccuracy,
    Part,
    Percent,
    class_accuracy,
    task_accuracy,
)
from bntricks.runs.record.metrics import (
    ELSEWHERE,
    METRICS,
    PARTS,
    acc,
    forward_transfer,
    metrics as metrics_of,
)
from bntricks.runs.record.phi import PhiAccuracies

ROUNDING = 1e-6
READINGS = ("wa-eval", "bic", "il2m", "prior")
"""Names of readings that are corrections of the run's own method; all others are methods."""

Accuracies = tuple[tuple[Percent | None, ...], ...]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Data(Part):
    """The images a run learned."""

    fingerprint: str
    classes: tuple[tuple[int, ...], ...] = ()
    """Of each task."""
    class_names: tuple[str, ...] = ()
    images: dict[str, int]
    """How many, to train and to test."""
    official_images: dict[str, int] | None
    cut_down: bool
    """Fewer than the official data set has."""


class Reading(Part):
    """What is read off the same network in another way."""

    accuracy: Accuracies
    task_il_accuracy: Accuracies
    new_share_of_phi: Share | None = None


class Seconds(Part):
    """Spent on each task."""

    train: tuple[Amount, ...] = ()
    evaluate: tuple[Amount, ...] = ()


class Numerics(Part):
    """What decides the last bits of a run besides its configuration, its data and its versions."""

    source: Sha256
    """A hash of the code that computes."""
    processor: str
    """The CPU's or GPU's name."""
    instructions: tuple[str, ...]
    """The CPU's instruction sets that choose between kernels; first the one torch uses itself."""


class Record(Part):
    """A finished run."""

    config: Config
    accuracy: Accuracies
    """R, over all classes (Class-IL)."""
    task_il_accuracy: Accuracies = ()
    """R, where the task is known (Task-IL)."""
    before_learning: BeforeLearning | None = None
    """None if labels are not read off the network's own outputs; in older records too."""
    epoch_accuracy: tuple[EpochAccuracy, ...] | None = None
    """If it was asked for."""
    confusion: Confusion | None = None
    """After the last task, over all classes."""
    data: Data
    seconds: Seconds = Seconds()
    steps: Count = 0
    forwards: Count = 0
    forwards_per_step: Positive
    images_per_step: Amount = 0.0
    images_per_second: Positive
    tracking_forwards: Count = 0
    tracking_skipped: Count = 0
    peak_memory_mb: Amount = 0.0
    """Of the process while it ran; where the system cannot reset it, since the process began."""
    new_share_of_phi: Share | None = None
    """The newest task's part of φ when the fifth task ends; None where the recipe and the options
    leave it open, and in older records."""
    distinct: Count | None = None
    """Different images that the memory held at the end; records of earlier versions do not say."""
    digest: dict[str, Sha256] | None = None
    """Hashes of the final network, and of the memory."""
    versions: dict[str, str]
    numerics: Numerics | None = None
    """What computed it; older records do not say."""
    finished: AwareDatetime | None = None
    """When training ended; older records do not say."""
    biased_phi: BiasedPhi | None = None
    """What the `statistics` probe measured."""
    phi: PhiAccuracies | None = None
    """What the `phi` probe measured."""
    readings: dict[str, Reading] | None = None
    """By the name of a correction that only rescores, or of a method that trains the same network;
    None if nobody asked."""
    trained_as: str | None = None
    """Another name of the same recipe, under which the run was trained."""
    path: Annotated[Path | None, Field(exclude=True)] = None
    """Where it lies on disk."""
    already_there: Annotated[bool, Field(exclude=True)] = False
    """It was read, not trained."""
    trained_again: Annotated[tuple[Record, ...], Field(exclude=True)] = ()
    """Later trainings of the same run that came to different bits."""

    @property
    def method(self) -> str:
        return self.config.method

    @property
    def stream(self) -> str:
        return self.config.stream

    @property
    def seed(self) -> int:
        return self.config.seed

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Every number that is quoted of a run, by name."""
        before = self.before_learning
        elsewhere = (
            acc(self.task_il_accuracy) if self.task_il_accuracy else None,
            before and forward_transfer(before.untrained, before.just_before),
        )
        return metrics_of(self.accuracy) | dict(zip(ELSEWHERE, elsewhere, strict=True))

    @cached_property
    def class_accuracy(self) -> list[float | None] | None:
        """In percent, of each class after the last task."""
        if self.confusion is None:
            return None
        return class_accuracy(self.confusion, len(self.data.class_names))

    @property
    def acc(self) -> float:
        return float(self.metrics["acc"])

    @property
    def bwt(self) -> float | None:
        value = self.metrics["bwt"]
        return None if value is None else float(value)

    def value(self, metric: str) -> float | None:
        """A number of this run, None if it does not have it: any of `metrics`, one of the further
        names that `paper.claims.Metric` lists, or another field."""
        r = self.accuracy
        number: Any
        match metric.split(":"):
            case ["acc_after", after]:
                number = _at(self.metrics["acc_after_each_task"], after)
            case ["accuracy", after, task]:
                number = _at(_at(r, after) or (), task)
            case ["every_task", task]:
                number = _at(r[-1], task)
            case [name] if name in PARTS:
                number = PARTS[name](r)
            case [name] if name in self.metrics:
                number = self.metrics[name]
            case _:
                number = self
                for part in metric.split("."):
                    number = getattr(number, part, None)
        if isinstance(number, list | tuple):
            raise UserError(f"{metric} is a list: a claim needs a metric that is one number")
        return None if number is None else float(number)

    def computed_alike(self, other: Record) -> bool:
        """Whether both were computed by the same code and processor, as far as they say. Records
        that do not name them are told apart by their versions and platforms."""
        if self.numerics is None or other.numerics is None:
            return self.versions == other.versions
        return self.numerics == other.numerics

    def rows(self) -> list[Record]:
        """This run, and every reading of it as if it were a run of its own."""
        return [self, *map(self.read_as, self.readings or ())]

    def read_as(self, name: str | None) -> Record:
        """The reading of this name as a record of its own; None is the run itself. What else was
        measured is not of it, and its cost is the run's."""
        if name is None or self.readings is None:
            return self
        corrects = name in READINGS
        change: dict[str, Any] = {"correct" if corrects else "method": name}
        return type(self)(
            **{field: getattr(self, field) for field in type(self).model_fields}
            | dict(self.readings[name])
            | dict.fromkeys(("readings", "phi", "biased_phi", "confusion"))
            | dict.fromkeys(("before_learning", "epoch_accuracy"))
            | {"config": self.config.model_copy(update=change)}
            | {"trained_as": self.trained_as if corrects else self.method}
        )

    def to_json(self) -> dict[str, Any]:
        """The plain values that `record.json` and `--json` hold."""
        values = self.model_dump(mode="json")
        derived: dict[str, Any] = {}
        if self.task_il_accuracy:
            derived["task_il"] = metrics_of(self.task_il_accuracy)
        if self.class_accuracy is not None:
            derived["class_accuracy"] = self.class_accuracy
        return {
            "method": self.method,
            "stream": self.stream,
            "seed": self.seed,
            **self.metrics,
            **derived,
            **{k: v for k, v in values.items() if v is not None},
        }

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """A record from plain values; raises ValueError if they contradict each other."""
        if not isinstance(values, dict):
            raise ValueError("not a JSON object")
        given = dict(values)
        named = {key: given.pop(key, None) for key in ("method", "stream", "seed")}
        names = (*METRICS, *ELSEWHERE, "class_accuracy")
        derived = {key: given.pop(key) for key in names if key in given}
        within = given.pop("task_il", {})
        if not isinstance(within, dict):
            raise ValueError("task_il is not a JSON object")
        record = cls.model_validate(given)
        for key, value in named.items():
            if value != getattr(record.config, key):
                raise ValueError(f"{key} is not the configuration's")
        _check_derived(derived, record.metrics, "the accuracy matrix")
        _check_derived(derived, {"class_accuracy": record.class_accuracy}, "the confusion matrix")
        if record.task_il_accuracy:
            _check_derived(within, metrics_of(record.task_il_accuracy), "the Task-IL matrix")
        return record

    @model_validator(mode="after")
    def _whole(self) -> Self:
        tasks = len(self.accuracy)
        for name in ("accuracy", "task_il_accuracy"):
            r: Accuracies = getattr(self, name)
            if name == "task_il_accuracy" and not r:
                continue
            if not r or len(r) != tasks or any(len(row) != tasks for row in r) or None in r[-1]:
                raise ValueError(f"{name} is not a square matrix with a whole last row")
        self._check_confusion()
        return self

    def _check_confusion(self) -> None:
        tasks = self.data.classes
        labels = [label for classes in tasks for label in classes]
        if self.confusion is None or len(set(labels)) < len(labels):
            return  # where tasks share classes, it does not say which task's images were mistaken
        derived = task_accuracy(self.confusion, tasks)
        if not _same(list(self.accuracy[-1]), derived):
            raise ValueError("confusion contradicts the accuracy matrix")


def _at(values: Sequence[Any], count: str) -> Any:
    """A value counted from 1, None if there are not so many."""
    return values[int(count) - 1] if int(count) <= len(values) else None


def _check_derived(given: Any, right: dict[str, Any], matrix: str) -> None:
    """A metric that is newer than the record is not in it."""
    for key, value in right.items():
        if key in given and not _same(given[key], value):
            raise ValueError(f"{key} does not follow from {matrix}")


def _same(given: Any, right: Any) -> bool:
    if isinstance(right, list):
        return (
            isinstance(given, list) and len(given) == len(right) and all(map(_same, given, right))
        )
    if right is None or not isinstance(given, int | float):
        return given is right
    return bool(abs(given - right) < ROUNDING)
