"""What φ costs a finished run: its accuracy under other statistics, with the same weights. Plain
numbers, for the record; `probes.py` measures them. Nothing here needs torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from bntricks.files import pack_json, text_bytes, unpack_json, write_atomically
from bntricks.runs.record.measurements import Part, Percent, Points

ROUNDING = 1e-6


class AtShare(Part):
    """Accuracy after the last task, with φ from a mixture of its images and of earlier ones."""

    share: Annotated[float, Field(ge=0, le=1)]
    """Of the last task's images."""
    old: Percent
    """The mean over all tasks but the last."""
    newest: Percent
    """On the last task."""
    acc: Percent
    """The mean over all tasks."""
    tasks: tuple[Percent, ...] | None = None
    """On each task; older records do not say."""
    nearest_mean: Percent | None = None
    """ACC by the nearest class mean of training features under the same φ, whatever the head says;
    older records do not say."""


class PhiAccuracies(Part):
    """ACC after the last task, with φ from different images."""

    acc: Percent
    """φ as it was trained."""
    oracle_acc: Percent
    """Moments of all training images of all tasks."""
    task_acc: Percent
    """Each task under the moments of its own training images, as if the task were known."""
    memory_acc: Percent | None = None
    """Moments of what is stored."""
    oracle_gain: Points
    """How much better φ could be."""
    by_share: tuple[AtShare, ...] | None = None
    """By how much of φ is the last task's; None with a single task, and in older records."""

    @classmethod
    def of(
        cls,
        acc: float,
        oracle: float,
        task: float,
        memory: float | None,
        by_share: tuple[AtShare, ...] | None = None,
    ) -> Self:
        return cls(
            acc=acc,
            oracle_acc=oracle,
            task_acc=task,
            memory_acc=memory,
            oracle_gain=oracle - acc,
            by_share=by_share,
        )

    @property
    def acc_change(self) -> float | None:
        """ACC with φ of the last task's images alone, minus that with φ of all earlier ones."""
        return self._change("acc")

    @property
    def old_change(self) -> float | None:
        """The same difference on the earlier tasks."""
        return self._change("old")

    @property
    def nearest_mean_change(self) -> float | None:
        """The same difference by the nearest class mean."""
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
    """What was left in this file. A damaged one counts as none, for it can be made again; so does
    one of an earlier version, which has no checksum."""
    try:
        return PhiAccuracies.model_validate(unpack_json(text_bytes(path)))
    except (OSError, ValueError):
        return None
