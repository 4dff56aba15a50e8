"""Labelled batches by group: what the doctor is given, checked once, and then streamed.

A group is a task, a set of classes, or old against new: a name, and batches `(x, y)` that can be
iterated more than once. Groups stand in the order they were learned, the newest last. Nothing here
keeps more than a few batches at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from bntricks.batch import check_finite
from bntricks.errors import UserError

Labelled = tuple[Tensor, Tensor]
Batches = Iterable[Labelled] | Callable[[], Iterable[Labelled]]
"""A list, a DataLoader, or a function without arguments that returns a fresh iterator."""
BatchesByGroup = Mapping[str, Batches]

BATCH_SIZE = 128
"""Samples in a batch that the doctor puts together."""
MIN_SAMPLES = 4
"""In a group: two to estimate with, two to measure on."""


@dataclass(frozen=True, slots=True)
class Group:
    """What one pass over a group's batches shows."""

    name: str
    samples: int
    classes: tuple[int, ...]
    variety: float
    """Of the classes that would fit into a batch, the share that is in it, on average."""


def with_text_names(batches_by_group: Mapping[Any, Batches]) -> BatchesByGroup:
    """Groups may be numbered; from here on their names are text."""
    return {str(name): batches for name, batches in batches_by_group.items()}


def survey(batches_by_group: BatchesByGroup) -> tuple[Group, ...]:
    """One pass over everything, so that unusable data is reported before any work begins."""
    count = len(batches_by_group)
    if count < 2:
        raise UserError(
            f"the doctor got {count} group{'s' * (count != 1)} of batches: give at least two, in "
            "the order they were learned, the newest last"
        )
    surveyed = [_survey_group(name, batches) for name, batches in batches_by_group.items()]
    if len({shape for _, shape in surveyed}) > 1:
        shapes = ", ".join(f"{group.name!r} {list(shape)}" for group, shape in surveyed)
        raise UserError(f"samples differ in shape: {shapes}; bring all groups to one shape")
    return tuple(group for group, _ in surveyed)


def class_shares(groups: Sequence[Group]) -> list[float]:
    """Each group's share of a balanced set, in which every class counts the same."""
    total = sum(len(group.classes) for group in groups)
    return [len(group.classes) / total for group in groups]


def checked_batches(name: str, batches: Batches) -> Iterator[Labelled]:
    """A fresh pass over a group's batches, each of them checked."""
    if isinstance(batches, Iterator):
        raise UserError(
            f"group {name!r} is a generator, which can be iterated only once: pass a list, a "
            "DataLoader, or a function that returns a fresh one"
        )
    for batch in batches() if callable(batches) else batches:
        yield _check_batch(name, batch)


def halves(batches_by_group: BatchesByGroup) -> tuple[BatchesByGroup, BatchesByGroup]:
    """Two disjoint halves of every batch, drawn at random but the same on every pass, so that
    accuracy is not measured on the samples that moments are estimated on."""

    def half(part: int, name: str, batches: Batches) -> Iterator[Labelled]:
        larger = 0  # the half that gets the odd sample, in turns
        for index, (x, y) in enumerate(checked_batches(name, batches)):
            order = torch.randperm(len(y), generator=Generator().manual_seed(index))
            rows = order.tensor_split([(len(y) + larger) // 2])[part].sort().values
            larger ^= len(y) % 2
            if len(rows):
                yield x[rows.to(x.device)], y[rows.to(y.device)]

    def all_groups(part: int) -> BatchesByGroup:
        return {name: partial(half, part, name, b) for name, b in batches_by_group.items()}

    return all_groups(0), all_groups(1)


def rebatched(batches: Iterable[Labelled], size: int) -> Iterator[Tensor]:
    """The same inputs in batches of `size` to just under `2 * size`: never a small last one."""
    waiting: list[Tensor] = []
    for x, _ in batches:
        waiting.append(x)
        ready = sum(map(len, waiting)) // size - 1
        if ready > 0:
            *full, rest = torch.cat(waiting).tensor_split([size * (k + 1) for k in range(ready)])
            yield from full
            waiting = [rest]
    if waiting:
        yield torch.cat(waiting)


def mixed(batches_by_group: BatchesByGroup, *, size: int = BATCH_SIZE) -> Iterator[Tensor]:
    """Balanced batches of inputs, for `recalibrate`: every class has the same share in them.

    Ends when every group was used in full; shorter groups begin again meanwhile.
    """
    batches_by_group = with_text_names(batches_by_group)
    return balanced_batches(survey(batches_by_group), batches_by_group, size)


def balanced_batches(
    groups: Sequence[Group], batches_by_group: BatchesByGroup, size: int
) -> Iterator[Tensor]:
    """`mixed`, of groups that were surveyed already."""
    classes = [len(group.classes) for group in groups]
    total = sum(classes)
    cycles = [_Cycle(name, batches) for name, batches in batches_by_group.items()]
    step = 0
    while not all(cycle.completed for cycle in cycles):
        # A group's samples up to any step are its exact share, rounded down: no share drifts.
        counts = [size * (step + 1) * n // total - size * step * n // total for n in classes]
        yield torch.cat([cycle.take(n) for cycle, n in zip(cycles, counts, strict=True) if n])
        step += 1


class _Cycle:
    """Hands out a group's inputs, any number at a time, over and over."""

    def __init__(self, name: str, batches: Batches) -> None:
        self.completed = False
        """All inputs were handed out at least once."""
        self._restart = partial(checked_batches, name, batches)
        self._batches = self._restart()
        self._remaining = self._next_batch()

    def take(self, count: int) -> Tensor:
        parts: list[Tensor] = []
        while count:
            parts.append(self._remaining[:count])
            self._remaining = self._remaining[count:]
            count -= len(parts[-1])
            if not len(self._remaining):
                self._remaining = self._next_batch()
        return torch.cat(parts)

    def _next_batch(self) -> Tensor:
        for x, _ in self._batches:
            return x
        self.completed = True
        self._batches = self._restart()
        return next(self._batches)[0]


def _survey_group(name: str, batches: Batches) -> tuple[Group, tuple[int, ...]]:
    classes, shapes = set[int](), set[tuple[int, ...]]()
    sizes: list[tuple[int, int]] = []  # classes and samples of each batch
    for x, y in checked_batches(name, batches):
        labels = set(y.tolist())
        classes |= labels
        shapes.add(tuple(x.shape[1:]))
        sizes.append((len(labels), len(y)))
    samples = sum(count for _, count in sizes)
    if samples < MIN_SAMPLES:
        raise UserError(
            f"group {name!r} has {samples} sample{'s' * (samples != 1)}: it needs at least "
            f"{MIN_SAMPLES}, half to estimate moments with and half to measure accuracy on"
        )
    if len(shapes) > 1:
        raise UserError(
            f"samples of group {name!r} differ in shape: {', '.join(map(str, sorted(shapes)))}; "
            "bring them to one shape"
        )
    variety = [present / min(count, len(classes)) for present, count in sizes]
    group = Group(name, samples, tuple(sorted(classes)), sum(variety) / len(variety))
    return group, shapes.pop()


def _check_batch(name: str, batch: object) -> Labelled:
    match batch:
        case [Tensor() as x, Tensor() as y] if x.ndim and y.ndim == 1 and len(x) == len(y) > 0:
            if not y.is_floating_point() and not y.is_complex():
                check_finite(x, f"a batch of group {name!r}")
                return x, y
    raise UserError(
        f"a batch of group {name!r} is {_described(batch)}: it must be a pair (x, y) of tensors, "
        "inputs and as many whole-number labels"
    )


def _described(batch: object) -> str:
    if isinstance(batch, Tensor):
        return f"a {str(batch.dtype).removeprefix('torch.')} tensor {list(batch.shape)}"
    if isinstance(batch, list | tuple) and len(batch) < 5:
        return f"({', '.join(map(_described, batch))})"
    return f"a {type(batch).__name__}"
