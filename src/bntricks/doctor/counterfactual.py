"""The same weights with other statistics: what would this model answer if only φ were another?

Every set of statistics sees the same samples, so differences are paired sample by sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bntricks.doctor.diagnosis import Counterfactual, Difference
from bntricks.doctor.groups import Group, Groups, Labelled, batches_of, class_shares
from bntricks.doctor.reading import Scores, placed
from bntricks.errors import UserError
from bntricks.norm import Statistics, mode, swapped
from bntricks.streams.files.progress import Report

Counts = NDArray[np.int64]
Z = 1.959964
"""The normal quantile of a 95% interval."""
NOTHING = -1
"""The answer of a network whose scores are not finite."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts over one group's samples, a row for each set of statistics."""

    samples: int
    right: Counts
    gained: Counts
    """Right with these statistics, wrong with the first."""
    lost: Counts
    answers: Counts
    """[statistics, groups + 1]: whose class was answered; the last column is no group's."""


def counterfactuals(
    net: nn.Module,
    groups: Groups,
    census: Sequence[Group],
    statistics: Mapping[str, Statistics],
    scores: Scores,
    size: int,
    report: Report,
) -> tuple[Counterfactual, ...]:
    """Accuracy and answers under every set of statistics, in one run over the samples. The first
    set is the one that the others are compared with."""
    tallies: list[Tally] = []
    for name, batches in groups.items():
        report("measuring accuracy", len(tallies), len(groups))
        parts = _parts(batches_of(name, batches), size)
        tallies.append(_tally(net, name, parts, list(statistics.values()), scores, census))
    report("measuring accuracy", len(groups), len(groups))
    return tuple(
        _counterfactual(index, name, census, tallies) for index, name in enumerate(statistics)
    )


@torch.no_grad()
def answers(net: nn.Module, x: Tensor, scores: Scores) -> tuple[Counts, int]:
    """The class of each sample, and how many classes there are."""
    with mode(net, training=False):
        found = scores(net, placed(net)(x))
    if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(x):
        what = list(found.shape) if isinstance(found, Tensor) else f"a {type(found).__name__}"
        raise UserError(
            f"the model returns {what} for {len(x)} samples: the doctor needs a score for every "
            "class, [N, C]; pass scores=, a function of the model and x that returns them"
        )
    finite = found.isfinite().all(1)
    return found.argmax(1).where(finite, NOTHING).cpu().numpy(), found.shape[1]


def _parts(batches: Iterable[Labelled], size: int) -> Iterable[Labelled]:
    for xs, ys in batches:
        yield from zip(torch.split(xs, size), torch.split(ys, size), strict=True)


def _tally(
    net: nn.Module,
    name: str,
    batches: Iterable[Labelled],
    statistics: Sequence[Statistics],
    scores: Scores,
    census: Sequence[Group],
) -> Tally:
    samples = 0
    right, gained, lost = np.zeros((3, len(statistics)), np.int64)
    whose = np.zeros((len(statistics), len(census) + 1), np.int64)
    for x, y in batches:
        labels = y.cpu().numpy()
        samples += len(labels)
        first = np.zeros(0, bool)
        for row, these in enumerate(statistics):
            with swapped(net, these):
                found, classes = answers(net, x, scores)
            correct = found == labels
            if row == 0:
                first = correct
            right[row] += correct.sum()
            gained[row] += (correct & ~first).sum()
            lost[row] += (first & ~correct).sum()
            owners = _owners(census, classes)
            whose[row] += np.bincount(owners[found], minlength=len(census) + 1)
    if not samples:
        raise UserError(f"group {name!r} has no samples to measure accuracy on: give more")
    return Tally(samples, right, gained, lost, whose)


def _owners(census: Sequence[Group], classes: int) -> Counts:
    """The group of each class; the last entry, that of no group, is also that of no answer."""
    owners = np.full(classes + 1, len(census))
    for index, group in enumerate(census):
        for label in group.classes:
            if not 0 <= label < classes:
                raise UserError(
                    f"group {group.name!r} has the label {label}, but the model has {classes} "
                    f"outputs, 0 to {classes - 1}: give labels in the order of its outputs"
                )
            owners[label] = index
    return owners


def _counterfactual(
    row: int, name: str, census: Sequence[Group], tallies: Sequence[Tally]
) -> Counterfactual:
    shares = np.array(class_shares(census))
    accuracy = np.array([100 * tally.right[row] / tally.samples for tally in tallies])
    old, newest = slice(None, -1), slice(-1, None)

    def mean(part: slice) -> float:
        return float(np.average(accuracy[part], weights=shares[part]))

    def difference(part: slice) -> Difference:
        weights = shares[part] / shares[part].sum()
        return _difference(weights, tallies[part], row)

    classes = [label for group in census for label in group.classes]
    told_apart = len(classes) == len(set(classes))
    return Counterfactual(
        statistics=name,
        accuracy=dict(zip((group.name for group in census), accuracy.tolist(), strict=True)),
        old=mean(old),
        newest=mean(newest),
        all=mean(slice(None)),
        old_difference=difference(old),
        newest_difference=difference(newest),
        all_difference=difference(slice(None)),
        answers=tuple(tuple(t.answers[row].tolist()) for t in tallies) if told_apart else None,
    )


def _difference(weights: NDArray[np.float64], tallies: Sequence[Tally], row: int) -> Difference:
    """The weighted difference of accuracies. Its interval is Wald's for paired shares after half
    a sample was added to each cell (Agresti and Min 2005), so that few samples, or none that
    changed, do not look certain."""
    samples = np.array([tally.samples for tally in tallies])
    gained = np.array([tally.gained[row] for tally in tallies])
    lost = np.array([tally.lost[row] for tally in tallies])
    more = samples + 2
    centre = weights @ ((gained - lost) / more)
    spread = (gained + lost + 1 - (gained - lost) ** 2 / more) / more**2
    half = Z * float(np.sqrt(weights**2 @ spread))
    points = float(weights @ ((gained - lost) / samples))
    return Difference(100 * points, 100 * float(centre - half), 100 * float(centre + half))
