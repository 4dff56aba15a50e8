"""The same weights with other statistics: what would this model answer if only φ were different?

Every set of statistics sees the same samples, so differences are paired sample by sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bntricks.devices import to_device
from bntricks.doctor.groups import BatchesByGroup, Group, Labelled, checked_batches, class_shares
from bntricks.errors import UserError
from bntricks.intervals import normal_quantile
from bntricks.networks.head import scores_in
from bntricks.norm import Statistics, mode, swapped
from bntricks.streams.files.progress import Report

Scores = Callable[[nn.Module, Tensor], Tensor]
"""From a network and its inputs to a score for every class, [N, C]."""
Counts = NDArray[np.int64]

NO_ANSWER = -1
"""The answer of a network whose scores are not finite."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of two accuracies on the same samples, with its 95% interval."""

    points: float
    low: float
    high: float

    @property
    def sign(self) -> Literal[-1, 0, 1]:
        """0 if the interval, as it is shown, reaches 0: there may be no difference."""
        low, high = round(self.low, 1), round(self.high, 1)
        return 1 if low > 0 else -1 if high < 0 else 0

    @property
    def signed(self) -> str:
        return f"{round(self.points, 1) + 0.0:+.1f}"  # never -0.0

    @property
    def interval(self) -> str:
        return f"{self.low:.1f} to {self.high:.1f}"


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The same weights with one set of statistics: how accurate they are, and what they answer.

    `old`, `newest` and `all` count every class the same. Differences are against φ as it is.
    """

    statistics: str
    accuracy: dict[str, float]
    old: float
    newest: float
    all: float
    old_difference: Difference
    newest_difference: Difference
    all_difference: Difference
    answers: tuple[tuple[int, ...], ...] | None
    """For each group how many of its samples are given a class of each group, and of none. None
    if groups share classes."""
    differences: dict[str, Difference] = field(default_factory=dict)
    """Of each group. Their intervals are wider, so that they hold for all groups together."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts over one group's samples, a row for each set of statistics."""

    samples: int
    correct: Counts
    gained: Counts
    """Correct with these statistics, wrong with the first."""
    lost: Counts
    answers: Counts
    """[statistics, groups + 1]: whose class was answered; the last column is no group's."""
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Labels and answers with the first statistics."""


def measure(
    net: nn.Module,
    groups: Sequence[Group],
    batches_by_group: BatchesByGroup,
    statistics: Sequence[Statistics],
    scores: Scores,
    size: int,
    report: Report,
) -> tuple[Tally, ...]:
    """Each group's answers under every set of statistics, in one pass over the samples. The first
    set is the one that the others are compared with."""
    tallies: list[Tally] = []
    for name, batches in batches_by_group.items():
        report("measuring accuracy", len(tallies), len(groups))
        parts = (
            part
            for xs, ys in checked_batches(name, batches)
            for part in zip(torch.split(xs, size), torch.split(ys, size), strict=True)
        )
        tallies.append(_tally(net, name, parts, statistics, scores, groups))
    report("measuring accuracy", len(groups), len(groups))
    return tuple(tallies)


def network_outputs(net: nn.Module, x: Tensor) -> Tensor:
    """The scores of a network that returns them as they are, or as `logits` of an object."""
    return scores_in(net(x))  # type: ignore[no-any-return]


def inputs_for(net: nn.Module) -> Callable[[Tensor], Tensor]:
    """Brings inputs to the network's device and, if they are floats, to its precision."""
    like = next((t for t in chain(net.parameters(), net.buffers()) if t.is_floating_point()), None)

    def move(x: Tensor) -> Tensor:
        if like is None:
            return x
        return to_device(x.to(like.dtype) if x.is_floating_point() else x, like.device)

    return move


@torch.no_grad()
def _answers(net: nn.Module, x: Tensor, scores: Scores) -> tuple[Counts, int]:
    """The class of each sample, and how many classes there are."""
    with mode(net, training=False):
        output = scores(net, inputs_for(net)(x))
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != len(x):
        kind = list(output.shape) if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise UserError(
            f"the model returns {kind} for {len(x)} samples: the doctor needs a score for every "
            "class, [N, C]; pass scores=, a function of the model and x that returns them"
        )
    finite = output.isfinite().all(1)
    return output.argmax(1).where(finite, NO_ANSWER).cpu().numpy(), output.shape[1]


def _tally(
    net: nn.Module,
    name: str,
    batches: Iterable[Labelled],
    statistics: Sequence[Statistics],
    scores: Scores,
    groups: Sequence[Group],
) -> Tally:
    samples = 0
    correct, gained, lost = np.zeros((3, len(statistics)), np.int64)
    by_group = np.zeros((len(statistics), len(groups) + 1), np.int64)
    pairs: Counter[tuple[int, int]] = Counter()
    for x, y in batches:
        labels = y.cpu().numpy()
        samples += len(labels)
        correct_at_first = np.zeros(0, bool)
        for row, moments in enumerate(statistics):
            with swapped(net, moments):
                answers, classes = _answers(net, x, scores)
            matches = answers == labels
            if row == 0:
                correct_at_first = matches
                pairs.update(zip(labels.tolist(), answers.tolist(), strict=True))
            correct[row] += matches.sum()
            gained[row] += (matches & ~correct_at_first).sum()
            lost[row] += (correct_at_first & ~matches).sum()
            owners = _owners(groups, classes)[answers]
            by_group[row] += np.bincount(owners, minlength=len(groups) + 1)
    if not samples:
        raise UserError(f"group {name!r} has no samples to measure accuracy on: give more")
    return Tally(samples, correct, gained, lost, by_group, pairs)


def _owners(groups: Sequence[Group], classes: int) -> Counts:
    """The group of each class; the last entry, that of no group, is also that of NO_ANSWER."""
    owners = np.full(classes + 1, len(groups))
    for index, group in enumerate(groups):
        for label in group.classes:
            if not 0 <= label < classes:
                raise UserError(
                    f"group {group.name!r} has the label {label}, but the model has {classes} "
                    f"outputs, 0 to {classes - 1}: give labels in the order of its outputs"
                )
            owners[label] = index
    return owners


def counterfactual(
    row: int, name: str, groups: Sequence[Group], tallies: Sequence[Tally]
) -> Counterfactual:
    """What was measured with the statistics of this row and name."""
    shares = np.array(class_shares(groups))
    accuracy = np.array([100 * tally.correct[row] / tally.samples for tally in tallies])
    old, newest, everything = slice(None, -1), slice(-1, None), slice(None)

    def mean(part: slice) -> float:
        return float(np.average(accuracy[part], weights=shares[part]))

    def difference(part: slice) -> Difference:
        weights = shares[part] / shares[part].sum()
        return paired_difference(weights, tallies[part], row)

    classes = [label for group in groups for label in group.classes]
    disjoint = len(classes) == len(set(classes))
    return Counterfactual(
        statistics=name,
        accuracy=dict(zip((group.name for group in groups), accuracy.tolist(), strict=True)),
        old=mean(old),
        newest=mean(newest),
        all=mean(everything),
        old_difference=difference(old),
        newest_difference=difference(newest),
        all_difference=difference(everything),
        answers=tuple(tuple(t.answers[row].tolist()) for t in tallies) if disjoint else None,
        differences={
            group.name: paired_difference(np.ones(1), [tally], row, among=len(groups))
            for group, tally in zip(groups, tallies, strict=True)
        },
    )


def paired_difference(
    weights: NDArray[np.float64], tallies: Sequence[Tally], row: int, *, among: int = 1
) -> Difference:
    """The weighted difference of accuracies. Its interval is Wald's for paired shares after half
    a sample was added to each cell (Agresti and Min 2005), so that few samples, or none that
    changed, do not look certain. One `among` several is as wide as all of them together need."""
    samples = np.array([tally.samples for tally in tallies])
    gained = np.array([tally.gained[row] for tally in tallies])
    lost = np.array([tally.lost[row] for tally in tallies])
    adjusted = samples + 2
    centre = weights @ ((gained - lost) / adjusted)
    variance = (gained + lost + 1 - (gained - lost) ** 2 / adjusted) / adjusted**2
    half_width = normal_quantile(among) * float(np.sqrt(weights**2 @ variance))
    points = float(weights @ ((gained - lost) / samples))
    low, high = float(centre - half_width), float(centre + half_width)
    return Difference(100 * points, 100 * low, 100 * high)
