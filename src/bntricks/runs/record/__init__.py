"""Records of finished runs: the accuracy matrix R, and how it came about.

R[i][j] is the accuracy in percent on task j after task i (paper, Sec. 3.1); entries that were never
measured are None. A record is checked whenever it is read: its numbers must follow from its own
matrix and configuration, and its checksum must match. Needs no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, Field, model_validator

from bntricks.errors import UserError
from bntricks.recipes.options import READINGS
from bntricks.runs.config import Config
from bntricks.runs.metrics import (
    ELSEWHERE,
    METRICS,
    PARTS,
    acc,
    forward_transfer,
    metrics as metrics_of,
)
from bntricks.runs.record.maps import BiasedPhi
from bntricks.runs.record.measurements import (
    ROUNDING,
    BeforeLearning,
    Confusion,
    EpochAccuracy,
    Percent,
    RecordPart,
    class_accuracy,
    task_accuracy,
)
from bntricks.runs.record.phi import PhiAccuracies

Accuracies = tuple[tuple[Percent | None, ...], ...]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Data(RecordPart):
    """The images a run learned."""

    fingerprint: str
    classes: tuple[tuple[int, ...], ...] = ()
    """The classes of each task."""
    class_names: tuple[str, ...] = ()
    images: dict[str, int]
    """Numbers of training and test images."""
    official_images: dict[str, int] | None
    cut_down: bool
    """Whether images of the official data set are missing."""
    given: bool | None = None
    """True if the stream was made in Python, where no command finds it."""


class Reading(RecordPart):
    """Accuracies of the same network, read off in another way."""

    accuracy: Accuracies
    task_il_accuracy: Accuracies
    new_share_of_phi: Share | None = None


class Seconds(RecordPart):
    """Time spent on each task."""

    train: tuple[Amount, ...] = ()
    evaluate: tuple[Amount, ...] = ()


class Numerics(RecordPart):
    """What decides a run's last bits besides its configuration, data and versions."""

    source: Sha256
    """A hash of the code that computes."""
    processor: str
    """The CPU's or GPU's name."""
    instructions: tuple[str, ...]
    """The CPU's instruction sets that choose between kernels; first the one torch uses itself."""


class Record(RecordPart):
    """A finished run."""

    config: Config
    accuracy: Accuracies
    """R, over all classes (Class-IL)."""
    task_il_accuracy: Accuracies = ()
    """R, where the task is known (Task-IL)."""
    before_learning: BeforeLearning | None = None
    """None if labels are not read off the network's outputs, and in older records."""
    epoch_accuracy: tuple[EpochAccuracy, ...] | None = None
    """None if it was not requested."""
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
    """During the run, or since the process began where the system cannot reset it."""
    new_share_of_phi: Share | None = None
    """The newest task's share of φ when the fifth task ends; None if recipe and options do not
    determine it, and in older records."""
    distinct: Count | None = None
    """Different images that the memory held at the end; None in older records."""
    digest: dict[str, Sha256] | None = None
    """Hashes of the final network, and of the memory."""
    versions: dict[str, str]
    numerics: Numerics | None = None
    """What computed it; None in older records."""
    finished: AwareDatetime | None = None
    """When training ended; None in older records."""
    biased_phi: BiasedPhi | None = None
    """Measurements of the `statistics` probe."""
    phi: PhiAccuracies | None = None
    """Measurements of the `phi` probe."""
    readings: dict[str, Reading] | None = None
    """By the name of a correction that only rescores, or of a method that trains the same network;
    None if not requested."""
    trained_as: str | None = None
    """Another name of the same recipe, under which the run was trained."""
    path: Annotated[Path | None, Field(exclude=True)] = None
    """Its folder or file."""
    already_there: Annotated[bool, Field(exclude=True)] = False
    """Whether it was read, not trained."""
    trained_again: Annotated[tuple[Record, ...], Field(exclude=True)] = ()
    """Later trainings of the same run that gave different bits."""

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
        """Return every metric by name."""
        before = self.before_learning
        elsewhere = (
            acc(self.task_il_accuracy) if self.task_il_accuracy else None,
            before and forward_transfer(before.untrained, before.just_before),
        )
        return metrics_of(self.accuracy) | dict(zip(ELSEWHERE, elsewhere, strict=True))

    @cached_property
    def class_accuracy(self) -> list[float | None] | None:
        """Return accuracy in percent by class, after the last task."""
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
        """Return a number of this run, or None if it has none: any of `metrics`, one of the further
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
        """Whether both were computed by the same code and processor. Records that do not name them
        are compared by versions and platforms."""
        if self.numerics is None or other.numerics is None:
            return self.versions == other.versions
        return self.numerics == other.numerics

    def rows(self) -> list[Record]:
        """List this run and each of its readings as a record."""
        return [self, *map(self.read_as, self.readings or ())]

    def read_as(self, name: str | None) -> Record:
        """Return the reading of this name as a record, or the run itself for None. It has the run's
        cost, but not its other measurements."""
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
        """Return the plain values of `record.json` and `--json`."""
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
        """Make a record from plain values; raise ValueError if they contradict each other."""
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
            return  # if tasks share classes, the matrix does not tell their images apart
        derived = task_accuracy(self.confusion, tasks)
        if not _same(list(self.accuracy[-1]), derived):
            raise ValueError("confusion contradicts the accuracy matrix")


def _at(values: Sequence[Any], count: str) -> Any:
    """Return the value at this position, counted from 1, or None."""
    return values[int(count) - 1] if int(count) <= len(values) else None


def _check_derived(given: Any, right: dict[str, Any], matrix: str) -> None:
    """Refuse metrics that do not follow from the matrix. Old records lack new metrics."""
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
