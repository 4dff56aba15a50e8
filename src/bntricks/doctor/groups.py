"""Labelled batches by group, the doctor's input: checked once, then streamed.

A group is a task or a set of classes: a name, and batches `(x, y)` that can be iterated more than
once. Groups are in the order they were learned, the newest last. If classes are mixed, only a few
batches are kept at a time.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import inf
from typing import Any

import torch
from torch import Generator, Tensor

from bntricks.batch import check_finite
from bntricks.errors import UserError, counted

Labelled = tuple[Tensor, Tensor]
Batches = Iterable[Labelled] | Callable[[], Iterable[Labelled]]
"""A list, a DataLoader, or a function without arguments that returns a fresh iterator."""
BatchesByGroup = Mapping[str, Batches]

BATCH_SIZE = 128
"""Samples in a batch that the doctor puts together."""
MIN_SAMPLES = 4
"""In a group: two to estimate with, two to measure on."""
SCANNED = 4096
"""The most samples that φ with another share of the newest group is estimated on."""
PASSES = 8
"""The most passes over a group's batches to repeat its smallest class."""


@dataclass(frozen=True, slots=True)
class Group:
    """The contents of a group's batches."""

    name: str
    samples: int
    classes: tuple[int, ...]
    variety: float = 1.0
    """The mean number of classes in a batch, over that of shuffled samples."""
    counts: tuple[int, ...] = ()
    """Samples of each class."""


def with_text_names(batches_by_group: Mapping[Any, Batches]) -> BatchesByGroup:
    """Turn the names of groups, which may be numbers, into text."""
    return {str(name): batches for name, batches in batches_by_group.items()}


def survey(batches_by_group: BatchesByGroup) -> tuple[Group, ...]:
    """Check and count all samples in one pass, before any work begins."""
    count = len(batches_by_group)
    if count < 2:
        raise UserError(
            f"the doctor got {counted(count, 'group')} of batches: give at least two, in "
            "the order they were learned, the newest last"
        )
    surveyed = [_survey_group(name, batches) for name, batches in batches_by_group.items()]
    if len({shape for _, shape in surveyed}) > 1:
        shapes = ", ".join(f"{group.name!r} {list(shape)}" for group, shape in surveyed)
        raise UserError(f"samples differ in shape: {shapes}; bring all groups to one shape")
    return tuple(group for group, _ in surveyed)


def class_shares(groups: Sequence[Group]) -> list[float]:
    """Return each group's share of a set with the same number of samples of each class."""
    total = sum(len(group.classes) for group in groups)
    return [len(group.classes) / total for group in groups]


def checked_batches(name: str, batches: Batches) -> Iterator[Labelled]:
    """Check each batch in a new pass over a group."""
    if isinstance(batches, Iterator):
        raise UserError(
            f"group {name!r} is a generator, which can be iterated only once: pass a list, a "
            "DataLoader, or a function that returns a fresh one"
        )
    for batch in batches() if callable(batches) else batches:
        yield _check_batch(name, batch)


def halves(
    groups: Sequence[Group], batches_by_group: BatchesByGroup
) -> tuple[BatchesByGroup, BatchesByGroup]:
    """Split every class into two disjoint halves, at random within a batch but the same on every
    pass, so that accuracy is not measured on samples that moments are estimated on."""

    def half(part: int, group: Group, batches: Batches) -> Iterator[Labelled]:
        turns = _first_turns(group)
        for x, y in shuffled(checked_batches(group.name, batches)):
            chosen = torch.zeros(len(y), dtype=torch.bool)
            for label in set(y.tolist()):
                rows = (y.cpu() == label).nonzero()[:, 0]
                turn = turns.get(label, 0)
                chosen[rows[(part - turn) % 2 :: 2]] = True
                turns[label] = (turn + len(rows)) % 2
            if chosen.any():
                yield x[chosen.to(x.device)], y[chosen.to(y.device)]

    def all_groups(part: int) -> BatchesByGroup:
        return {g.name: partial(half, part, g, batches_by_group[g.name]) for g in groups}

    return all_groups(0), all_groups(1)


def first_half(group: Group) -> Group:
    """Describe the first of the `halves` of a group."""
    turns = _first_turns(group)
    counts = tuple(
        (count + 1 - turns[label]) // 2
        for label, count in zip(group.classes, group.counts, strict=True)
    )
    return replace(group, samples=sum(counts), counts=counts)


def _first_turns(group: Group) -> dict[int, int]:
    """Choose the half that gets the first sample of each class. Of an odd number it gets one more,
    so classes take turns."""
    turns, turn = {}, 0
    for label, count in zip(group.classes, group.counts, strict=True):
        turns[label] = turn
        turn ^= count % 2
    return turns


def shuffled(batches: Iterable[Labelled]) -> Iterator[Labelled]:
    """Shuffle within each batch, in the same order on every pass."""
    for index, (x, y) in enumerate(batches):
        order = torch.randperm(len(y), generator=Generator().manual_seed(index))
        yield x[order.to(x.device)], y[order.to(y.device)]


def rebatched(batches: Iterable[Labelled], size: int) -> Iterator[Labelled]:
    """Shuffle within batches, and regroup them to `size` or more: never a small last one."""
    waiting: list[Labelled] = []
    for batch in shuffled(batches):
        waiting.append(batch)
        ready = sum(len(y) for _, y in waiting) // size - 1
        if ready > 0:
            ends = [size * (k + 1) for k in range(ready)]
            xs, ys = (torch.cat(part).tensor_split(ends) for part in zip(*waiting, strict=True))
            *full, rest = zip(xs, ys, strict=True)
            yield from full
            waiting = [rest]
    if waiting:
        x, y = (torch.cat(part) for part in zip(*waiting, strict=True))
        yield x, y


def variety(labels: Tensor, group: Group) -> float:
    """Divide the number of classes among these labels by that among as many random samples."""
    absent = (1 - torch.tensor(group.counts) / sum(group.counts)) ** len(labels)
    return len(set(labels.tolist())) / float((1 - absent).sum())


def mixed(batches_by_group: BatchesByGroup, *, size: int = BATCH_SIZE) -> Iterator[Tensor]:
    """Yield batches of inputs with the same share of every class, for `recalibrate`, until every
    group was used in full; smaller groups are repeated."""
    batches_by_group = with_text_names(batches_by_group)
    return balanced_batches(survey(batches_by_group), batches_by_group, size)


def balanced_batches(
    groups: Sequence[Group],
    batches_by_group: BatchesByGroup,
    size: int,
    *,
    newest: Fraction | None = None,
) -> Iterator[Tensor]:
    """Yield the batches of `mixed`, of groups that are already surveyed. With another share of the
    newest group than the balanced one, yield as many samples as there are, at most SCANNED."""
    weights = [len(group.classes) for group in groups]
    steps: float = inf
    if newest is not None:
        parts, rest = newest.numerator, newest.denominator - newest.numerator
        old = sum(weights[:-1])
        weights = [n * rest for n in weights[:-1]] + [old * parts]
        steps = -(-min(SCANNED, sum(group.samples for group in groups)) // size)
    total = sum(weights)
    cycles = [_Cycle(group, batches_by_group[group.name]) for group in groups]
    step = 0
    while step < steps and not all(cycle.completed for cycle in cycles):
        # Up to any step, a group has its exact share, rounded down, so that no share drifts.
        counts = [size * (step + 1) * n // total - size * step * n // total for n in weights]
        yield torch.cat([x for cycle, n in zip(cycles, counts, strict=True) for x in cycle.take(n)])
        step += 1


class _Cycle:
    """A group's inputs, handed out repeatedly, any number at a time, equally many of each class.

    In every pass over the batches each class gives the same number of inputs: large classes some of
    theirs in turn, small ones some of theirs more than once.
    """

    def __init__(self, group: Group, batches: Batches) -> None:
        self._name, self._source = group.name, batches
        # A class of one sample is in one half only.
        pairs = zip(group.classes, group.counts, strict=True)
        self._counts = {label: count for label, count in pairs if count}
        smallest, largest = min(self._counts.values()), max(self._counts.values())
        passes = min(round(largest / smallest), PASSES)
        self._quota = -(-largest // passes)
        self._needed = passes * self._quota * len(self._counts)
        self._waiting: dict[int, deque[Tensor]] = {label: deque() for label in self._counts}
        self._handed_out = 0
        self._passes = 0
        self._batches = self._fresh_batches()
        self._seen: Counter[int] = Counter()

    @property
    def completed(self) -> bool:
        """Whether all inputs were handed out at least once."""
        return self._handed_out >= self._needed

    def take(self, count: int) -> list[Tensor]:
        classes, start, end = len(self._counts), self._handed_out, self._handed_out + count
        self._handed_out = end
        return [
            part
            for turn, label in enumerate(self._counts)
            for part in self._of_class(label, (end + turn) // classes - (start + turn) // classes)
        ]

    def _of_class(self, label: int, count: int) -> Iterator[Tensor]:
        waiting = self._waiting[label]
        while count:
            passes = self._passes
            while not waiting:
                self._read_batch()
                if self._passes > passes + PASSES:
                    raise UserError(
                        f"group {self._name!r} no longer contains class {label}: its batches must "
                        "have the same classes on every pass"
                    )
            head = waiting.popleft()
            if len(head) > count:
                waiting.appendleft(head[count:])
            yield head[:count]
            count -= len(head[:count])

    def _read_batch(self) -> None:
        for x, y in self._batches:
            self._store(x, y.cpu())
            return
        self._passes += 1
        self._batches = self._fresh_batches()
        self._seen.clear()

    def _fresh_batches(self) -> Iterator[Labelled]:
        return shuffled(checked_batches(self._name, self._source))

    def _store(self, x: Tensor, y: Tensor) -> None:
        start = self._passes * self._quota
        for label in set(y.tolist()):
            if label not in self._counts:
                continue
            rows = (y == label).nonzero()[:, 0]
            position = torch.arange(len(rows)) + self._seen[label]
            self._seen[label] += len(rows)
            # A class hands out its positions 0, 1, 2, ... repeatedly; this pass's part of that
            # sequence goes from `start` on for one quota.
            before, after = (
                (end - 1 - position) // self._counts[label] for end in (start, start + self._quota)
            )
            chosen = rows.repeat_interleave(after - before)
            if len(chosen):
                self._waiting[label].append(x[chosen.to(x.device)])


def _survey_group(name: str, batches: Batches) -> tuple[Group, tuple[int, ...]]:
    counts, shapes = Counter[int](), set[tuple[int, ...]]()
    for x, y in checked_batches(name, batches):
        counts.update(y.tolist())
        shapes.add(tuple(x.shape[1:]))
    samples = counts.total()
    if samples < MIN_SAMPLES:
        raise UserError(
            f"group {name!r} has {counted(samples, 'sample')}: it needs at least "
            f"{MIN_SAMPLES}, half to estimate moments with and half to measure accuracy on"
        )
    if len(shapes) > 1:
        raise UserError(
            f"samples of group {name!r} differ in shape: {', '.join(map(str, sorted(shapes)))}; "
            "bring them to one shape"
        )
    classes = tuple(sorted(counts))
    group = Group(name, samples, classes, counts=tuple(counts[label] for label in classes))
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
