"""Joint batches of groups, in which every class is equally frequent, or which hold another share of
the newest group."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import inf

import torch
from torch import Tensor

from bntricks.doctor.groups import (
    BATCH_SIZE,
    Batches,
    BatchesByGroup,
    Group,
    Labelled,
    checked_batches,
    shuffled,
    survey,
    with_text_names,
)
from bntricks.errors import UserError

SCANNED = 4096
"""The most samples that φ with another share of the newest group is estimated on."""
PASSES = 8
"""The most passes over a group's batches to repeat its smallest class."""


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
