"""The accuracy of a finished run under other statistics φ, with the same weights. They are plain
numbers, which a probe measures. Needs no torch."""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from bntricks.files import pack_json, text_bytes, unpack_json, write_atomically
from bntricks.runs.record.measurements import ROUNDING, Percent, Points, RecordPart


class AtShare(RecordPart):
    """Accuracy after the last task, with φ from a mixture of its images and of earlier ones."""

    share: Annotated[float, Field(ge=0, le=1)]
    """The last task's share of the images."""
    old: Percent
    """The mean over all tasks but the last."""
    newest: Percent
    """On the last task."""
    acc: Percent
    """The mean over all tasks."""
    tasks: tuple[Percent, ...] | None = None
    """On each task; None in older records."""
    nearest_mean: Percent | None = None
    """ACC by the nearest class mean of training features under the same φ, without the head; None
    in older records."""


class PhiAccuracies(RecordPart):
    """ACC after the last task, with φ from different images."""

    acc: Percent
    """With φ as it was trained."""
    oracle_acc: Percent
    """With the moments of all training images."""
    task_acc: Percent
    """With the moments of each task's own training images, as if the task were known."""
    memory_acc: Percent | None = None
    """With the moments of the stored images."""
    oracle_gain: Points
    """How much ACC a perfect φ would gain."""
    by_share: tuple[AtShare, ...] | None = None
    """With φ of mixtures; None with a single task, and in older records."""

    @classmethod
    def of(cls, acc: float, oracle: float, **others: Any) -> Self:
        return cls(acc=acc, oracle_acc=oracle, oracle_gain=oracle - acc, **others)

    @property
    def acc_change(self) -> float | None:
        """Return ACC with φ of the last task's images, minus ACC with φ of all earlier ones."""
        return self._change("acc")

    @property
    def old_change(self) -> float | None:
        """Return the same difference on the earlier tasks."""
        return self._change("old")

    @property
    def nearest_mean_change(self) -> float | None:
        """Return the same difference by the nearest class mean."""
        return self._change("nearest_mean")

    def _change(self, name: str) -> float | None:
        if self.by_share is None:
            return None
        ends = sorted(self.by_share, key=lambda at: at.share)
        first, last = getattr(ends[0], name), getattr(ends[-1], name)
        return None if first is None or last is None else last - first

    @model_validator(mode="after")
    def _follows(self) -> Self:
        if abs(self.oracle_gain - (self.oracle_acc - self.acc)) > ROUNDING:
            raise ValueError("oracle_gain does not follow from the accuracies")
        return self


def save(accuracies: PhiAccuracies, path: Path) -> None:
    write_atomically(path, pack_json(accuracies.model_dump(mode="json")))


def load(path: Path) -> PhiAccuracies | None:
    """Load the accuracies, or return None if they are missing, damaged or without a checksum, as in
    earlier versions: they can be measured again."""
    try:
        return PhiAccuracies.model_validate(unpack_json(text_bytes(path)))
    except (OSError, ValueError):
        return None
