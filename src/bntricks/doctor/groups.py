"""Labelled batches by group, the doctor's input: checked once, then streamed.

A group is a task or a set of classes: a name, and batches `(x, y)` that can be iterated more than
once. Groups are in the order they were learned, the newest last. If classes are mixed, only a few
batches are kept at a time.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
