"""The task at hand: its number, its classes, and those before."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Lesson:
    """The task at hand: its number `t` (from 1), its classes, those before, its size."""

    t: int = 0
    new: tuple[int, ...] = ()
    old: tuple[int, ...] = ()
    size: int = 0
    visitors: tuple[int, ...] = ()  # classes of other tasks among its samples

    @property
    def seen(self) -> tuple[int, ...]:
        return self.old + self.new

    @property
    def announced(self) -> set[int]:
        """The classes that its samples may have."""
        return {*self.seen, *self.visitors}


def next_lesson(
    before: Lesson, classes: Sequence[int], size: int = 0, visitors: Sequence[int] = ()
) -> Lesson:
    """Return the task after another one. A class that comes again is new, not old."""
    old = tuple(label for label in before.seen if label not in classes)
    return Lesson(before.t + 1, tuple(classes), old, size, tuple(visitors))


def unannounced_lesson(before: Lesson, y: Tensor) -> Lesson:
    """Return the lesson of a batch without tasks: its classes are new, all others are old."""
    return replace(next_lesson(before, sorted(set(y.tolist()))), t=1)


def check_announced(y: Tensor, classes: Collection[int]) -> None:
    """Refuse labels of other classes."""
    unknown = sorted(set(y.tolist()) - set(classes))
    if unknown:
        raise ValueError(f"no task has announced labels {unknown}: begin([...]) does")
