"""Labelled batches by group: what the doctor is given, checked once, and then streamed.

A group is a task, a set of classes, or old against new: a name, and batches `(x, y)` that can be
run over more than once. Groups stand in the order they were learned, the newest last. Nothing here
keeps more than a few batches at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from bntricks.errors import UserError

Labelled = tuple[Tensor, Tensor]
Batches = Iterable[Labelled] | Callable[[], Iterable[Labelled]]
"""A list, a DataLoader, or a function without arguments that returns a fresh iterator."""
Groups = Mapping[str, Batches]

SIZE = 128
"""Rows of a batch that the doctor puts together."""
FEWEST = 4
"""Samples of a group: two to estimate with, two to measure on."""


@dataclass(frozen=True, slots=True)
class Group:
    """What one run over a group's batches tells."""

    name: str
    samples: int
    classes: tuple[int, ...]
    variety: float
    """Of the classes that would fit into a batch, the share that is in it, on average."""


def named(groups: Mapping[Any, Batches]) -> Groups:
    """The groups under names that are text, whatever they were numbered by."""
    return {str(name): batches for name, batches in groups.items()}


def survey(groups: Groups) -> tuple[Group, ...]:
    """Run over everything once; whatever cannot be used is said before any work begins."""
    if len(groups) < 2:
        raise UserError(
            f"the doctor got {len(groups)} group{'s' * (len(groups) != 1)} of batches: give at "
            "least two, in the order they were learned, the newest last"
        )
    found = tuple(_count(name, batches) for name, batches in groups.items())
    shapes = {group.name: shape for group, shape in found}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name!r} {list(shape)}" for name, shape in shapes.items())
        raise UserError(f"samples differ in shape: {listed}; bring all groups to one shape")
    return tuple(group for group, _ in found)


def class_shares(groups: Sequence[Group]) -> list[float]:
    """Each group's share of a balanced set, in which every class counts the same."""
    total = sum(len(group.classes) for group in groups)
    return [len(group.classes) / total for group in groups]


def batches_of(name: str, batches: Batches) -> Iterator[Labelled]:
    """A fresh run over a group's batches, each of them checked."""
    if isinstance(batches, Iterator):
        raise UserError(
            f"group {name!r} is a generator, which can be run over only once: pass a list, a "
            "DataLoader, or a function that returns a fresh one"
        )
    for batch in batches() if callable(batches) else batches:
        yield _checked(name, batch)


def halves(groups: Groups) -> tuple[Groups, Groups]:
    """Two disjoint halves of every batch, drawn at random but the same on every run, so that
    moments are estimated on samples other than those on which accuracy is measured."""

    def half(part: int, name: str, batches: Batches) -> Iterator[Labelled]:
        larger = 0  # the half that gets the odd sample, in turns
        for index, (x, y) in enumerate(batches_of(name, batches)):
            order = torch.randperm(len(y), generator=Generator().manual_seed(index))
            rows = order.tensor_split([(len(y) + larger) // 2])[part].sort().values
            larger ^= len(y) % 2
            if len(rows):
                yield x[rows.to(x.device)], y[rows.to(y.device)]

    def all_of(part: int) -> Groups:
        return {name: partial(half, part, name, batches) for name, batches in groups.items()}

    return all_of(0), all_of(1)


def resized(batches: Iterable[Labelled], size: int) -> Iterator[Tensor]:
    """The same samples in batches of `size` to just under twice as many: never a small rest."""
    held: list[Tensor] = []
    for x, _ in batches:
        held.append(x)
        whole = sum(map(len, held)) // size - 1
        if whole > 0:
            *parts, rest = torch.cat(held).tensor_split([size * (k + 1) for k in range(whole)])
            yield from parts
            held = [rest]
    if held:
        yield torch.cat(held)


def mixed(batches_by_group: Groups, *, size: int = SIZE) -> Iterator[Tensor]:
    """Balanced batches of inputs, for `recalibrate`: every class has the same share in them.

    Ends when each group was run over once; shorter groups begin again meanwhile.
    """
    groups = named(batches_by_group)
    return mixed_by(survey(groups), groups, size)


def mixed_by(census: Sequence[Group], groups: Groups, size: int) -> Iterator[Tensor]:
    """`mixed`, with the groups' shares known already."""
    classes = [len(group.classes) for group in census]
    total = sum(classes)
    rows = [_Rows(name, batches) for name, batches in groups.items()]
    step = 0
    while not all(one.over for one in rows):
        # A group's rows up to any step are its exact share, rounded down: no share drifts.
        counts = [size * (step + 1) * n // total - size * step * n // total for n in classes]
        taken = [one.take(n) for one, n in zip(rows, counts, strict=True) if n]
        yield torch.cat(taken)
        step += 1


class _Rows:
    """Hands out a group's inputs, any number at a time, beginning again when they are over."""

    def __init__(self, name: str, batches: Batches) -> None:
        self.over = False
        self._fresh = partial(batches_of, name, batches)
        self._run = self._fresh()
        self._held = self._next()

    def take(self, count: int) -> Tensor:
        taken: list[Tensor] = []
        while count:
            taken.append(self._held[:count])
            self._held = self._held[count:]
            count -= len(taken[-1])
            if not len(self._held):
                self._held = self._next()
        return torch.cat(taken)

    def _next(self) -> Tensor:
        for x, _ in self._run:
            return x
        self.over = True
        self._run = self._fresh()
        return next(self._run)[0]


def _count(name: str, batches: Batches) -> tuple[Group, tuple[int, ...]]:
    samples, classes, variety, parts = 0, set[int](), list[tuple[int, int]](), set[Any]()
    for x, y in batches_of(name, batches):
        found = set(y.tolist())
        samples += len(y)
        classes |= found
        variety.append((len(found), len(y)))
        parts.add(tuple(x.shape[1:]))
    if samples < FEWEST:
        raise UserError(
            f"group {name!r} has {samples} sample{'s' * (samples != 1)}: it needs at least "
            f"{FEWEST}, half to estimate moments with and half to measure accuracy on"
        )
    if len(parts) > 1:
        raise UserError(
            f"samples of group {name!r} differ in shape: {', '.join(map(str, sorted(parts)))}; "
            "bring them to one shape"
        )
    shares = [there / min(rows, len(classes)) for there, rows in variety]
    return Group(name, samples, tuple(sorted(classes)), sum(shares) / len(shares)), parts.pop()


def _checked(name: str, batch: object) -> Labelled:
    match batch:
        case [Tensor() as x, Tensor() as y] if x.ndim and y.ndim == 1 and len(x) == len(y) > 0:
            if not y.is_floating_point() and not y.is_complex():
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
