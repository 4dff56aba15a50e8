"""The accuracy of the same weights with other statistics φ.

Every set of statistics is tried on the same samples, so differences are paired sample by sample.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bntricks.doctor.groups import BatchesByGroup, Group, Labelled, checked_batches, class_shares
from bntricks.errors import UserError
from bntricks.intervals import normal_quantile, sign
from bntricks.networks.head import scores_in
from bntricks.norm import Statistics, mode, swapped
from bntricks.streams.files.progress import OnProgress
from bntricks.system.devices import to_device

Scores = Callable[[nn.Module, Tensor], Tensor]
"""A function from a network and its inputs to a score for every class, [N, C]."""
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
        """The sign; 0 if the interval, as printed, includes 0."""
        return sign(self.low, self.high, 1)

    @property
    def signed(self) -> str:
        return f"{round(self.points, 1) + 0.0:+.1f}"  # never -0.0

    @property
    def interval(self) -> str:
        return f"{self.low:.1f} to {self.high:.1f}"


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """Accuracy and answers of the same weights with one set of statistics.

    `old`, `newest` and `all` give every class the same weight. Differences are against φ as it is.
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
    """For each group, how many of its samples are taken for a class of each group, and of none.
    None if groups share classes."""
    differences: dict[str, Difference] = field(default_factory=dict)
    """By group, with intervals wide enough to hold for all groups together."""
    old_as_newest: float | None = None
    """The share of old samples, in per cent, that are taken for a class of the newest group, with
    the same weight for every class. None if groups share classes."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts over one group's samples, class by class."""

    samples: Counts  # [classes]
    correct: Counts  # [statistics, classes]
    gained: Counts
    """Samples that are right with these statistics and wrong with the first."""
    lost: Counts
    pairs: tuple[Counter[tuple[int, int]], ...] = ()
    """Labels and answers, for each set of statistics."""

    def accuracy(self, row: int) -> float:
        """Return the accuracy in per cent, with the same weight for every class."""
        return float(100 * (self.correct[row] / self.samples).mean())


@dataclass(frozen=True, slots=True)
class Trial:
    """A set of statistics for the network, and perhaps functions that rescore its logits or change
    its inputs."""

    statistics: Statistics
    rescore: Callable[[Tensor], Tensor] | None = None
    change: Callable[[Tensor], Tensor] | None = None


def measure(
    net: nn.Module,
    groups: Sequence[Group],
    batches_by_group: BatchesByGroup,
    trials: Sequence[Trial],
    scores: Scores,
    size: int,
    report: OnProgress,
) -> tuple[Tally, ...]:
    """Count each group's answers in every trial, in one pass; the first is the reference."""
    tallies: list[Tally] = []
    for name in batches_by_group:
        report("measuring accuracy", len(tallies), len(groups))
        parts = in_parts(batches_by_group, name, size)
        tallies.append(_tally(net, name, parts, trials, scores, groups))
    report("measuring accuracy", len(groups), len(groups))
    return tuple(tallies)


def in_parts(batches_by_group: BatchesByGroup, name: str, size: int) -> Iterator[Labelled]:
    """Yield the batches of a group, in parts of at most `size` samples."""
    for xs, ys in checked_batches(name, batches_by_group[name]):
        yield from zip(torch.split(xs, size), torch.split(ys, size), strict=True)


def network_outputs(net: nn.Module, x: Tensor) -> Tensor:
    """Return the scores of a network that returns them directly, or as `logits` of an object."""
    return scores_in(net(x))  # type: ignore[no-any-return]


def inputs_for(net: nn.Module) -> Callable[[Tensor], Tensor]:
    """Make a function that brings inputs to the network's device and floats to its precision."""
    like = next((t for t in chain(net.parameters(), net.buffers()) if t.is_floating_point()), None)

    def move(x: Tensor) -> Tensor:
        if like is None:
            return x
        return to_device(x.to(like.dtype) if x.is_floating_point() else x, like.device)

    return move


@torch.no_grad()
def outputs_with(statistics: Statistics, net: nn.Module, x: Tensor, scores: Scores) -> Tensor:
    """Score these samples with other statistics."""
    with swapped(net, statistics), mode(net, training=False):
        output = scores(net, inputs_for(net)(x))
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != len(x):
        kind = list(output.shape) if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise UserError(
            f"the model returns {kind} for {len(x)} samples: the doctor needs a score for every "
            "class, [N, C]; pass scores=, a function of the model and x that returns them"
        )
    return output


def _tally(
    net: nn.Module,
    name: str,
    batches: Iterable[Labelled],
    trials: Sequence[Trial],
    scores: Scores,
    groups: Sequence[Group],
) -> Tally:
    samples: Counter[int] = Counter()
    counts: dict[int, Counts] = defaultdict(lambda: np.zeros((3, len(trials)), np.int64))
    pairs = [Counter[tuple[int, int]]() for _ in trials]
    for x, y in batches:
        labels = y.cpu().numpy()
        answers = np.stack([own.cpu().numpy() for own in _answers(net, x, trials, scores, groups)])
        for own, answered in zip(pairs, answers.tolist(), strict=True):
            own.update(zip(labels.tolist(), answered, strict=True))
        right = answers == labels  # [trials, N]
        changes = np.stack([right, right & ~right[0], right[0] & ~right])
        for label in np.unique(labels).tolist():
            of_class = labels == label
            samples[label] += int(of_class.sum())
            counts[label] += changes[:, :, of_class].sum(-1)
    if not samples:
        raise UserError(f"group {name!r} has no samples to measure accuracy on: give more")
    correct, gained, lost = np.stack([counts[label] for label in samples], -1)
    return Tally(np.array(list(samples.values())), correct, gained, lost, tuple(pairs))


def _answers(
    net: nn.Module, x: Tensor, trials: Sequence[Trial], scores: Scores, groups: Sequence[Group]
) -> Iterator[Tensor]:
    """Yield the class of each sample, for every trial."""
    passed: dict[tuple[int, int], Tensor] = {}  # one forward for each φ and input
    for trial in trials:
        if (phi := (id(trial.statistics), id(trial.change))) not in passed:
            inputs = x if trial.change is None else trial.change(x)
            passed[phi] = outputs_with(trial.statistics, net, inputs, scores)
            check_labels(groups, passed[phi].shape[1])
        output = passed[phi] if trial.rescore is None else trial.rescore(passed[phi].float())
        yield output.argmax(1).where(output.isfinite().all(1), NO_ANSWER)


def check_labels(groups: Sequence[Group], outputs: int) -> None:
    for group in groups:
        for label in group.classes:
            if not 0 <= label < outputs:
                raise UserError(
                    f"group {group.name!r} has the label {label}, but the model has {outputs} "
                    f"outputs, 0 to {outputs - 1}: give labels in the order of its outputs"
                )


def counterfactual(
    row: int, name: str, groups: Sequence[Group], tallies: Sequence[Tally]
) -> Counterfactual:
    """Summarise the trial in this row of the tallies, under this name."""
    shares = np.array(class_shares(groups))
    accuracy = np.array([tally.accuracy(row) for tally in tallies])
    old, newest, everything = slice(None, -1), slice(-1, None), slice(None)

    def mean(values: NDArray[np.float64], part: slice) -> float:
        return float(np.average(values[part], weights=shares[part]))

    def difference(part: slice) -> Difference:
        weights = shares[part] / shares[part].sum()
        return paired_difference(weights, tallies[part], row)

    classes = [label for group in groups for label in group.classes]
    disjoint = len(classes) == len(set(classes))
    answers = tuple(_answers_by_group(groups, tally.pairs[row]) for tally in tallies)
    as_newest = np.array([_taken_for(groups[-1], tally.pairs[row]) for tally in tallies])
    return Counterfactual(
        statistics=name,
        accuracy=dict(zip((group.name for group in groups), accuracy.tolist(), strict=True)),
        old=mean(accuracy, old),
        newest=mean(accuracy, newest),
        all=mean(accuracy, everything),
        old_difference=difference(old),
        newest_difference=difference(newest),
        all_difference=difference(everything),
        answers=answers if disjoint else None,
        differences={
            group.name: paired_difference(np.ones(1), [tally], row, among=len(groups))
            for group, tally in zip(groups, tallies, strict=True)
        },
        old_as_newest=mean(as_newest, old) if disjoint else None,
    )


def _answers_by_group(groups: Sequence[Group], pairs: Counter[tuple[int, int]]) -> tuple[int, ...]:
    """Count the answers that are classes of each group, and of none."""
    owners = {label: index for index, group in enumerate(groups) for label in group.classes}
    counts = [0] * (len(groups) + 1)
    for (_, answer), count in pairs.items():
        counts[owners.get(answer, len(groups))] += count
    return tuple(counts)


def _taken_for(group: Group, pairs: Counter[tuple[int, int]]) -> float:
    """Return the percentage of answers in this group; every label has the same weight."""
    samples, taken = Counter[int](), Counter[int]()
    for (label, answer), count in pairs.items():
        samples[label] += count
        taken[label] += count * (answer in group.classes)
    return 100 * sum(taken[label] / samples[label] for label in samples) / len(samples)


def paired_difference(
    weights: NDArray[np.float64], tallies: Sequence[Tally], row: int, *, among: int = 1
) -> Difference:
    """Return the weighted difference of accuracies. Its interval is Wald's for paired shares after
    adding half a sample to each cell (Agresti and Min 2005), so that few samples, or none that
    changed, do not look certain. One `among` several is as wide as all of them together need."""
    points, centre, variance = np.array([_paired(tally, row) for tally in tallies]).T
    half_width = normal_quantile(among) * float(np.sqrt(weights**2 @ variance))
    middle = float(weights @ centre)
    return Difference(
        100 * float(weights @ points), 100 * (middle - half_width), 100 * (middle + half_width)
    )


def _paired(tally: Tally, row: int) -> tuple[float, float, float]:
    """Return the difference of accuracies in one group, as a mean over its classes; then, with the
    added samples, which its classes share, the same and its variance.

    Classes with few samples contribute more to the variance. Deviations are from the group's mean:
    for classes of equal size, this is the variance of a share of all samples.
    """
    classes = len(tally.samples)
    change = tally.gained[row] - tally.lost[row]
    changed = tally.gained[row] + tally.lost[row]
    adjusted = tally.samples + 2 / classes
    centre = float((change / adjusted).mean())
    squares = changed + 1 / classes - 2 * centre * change + centre**2 * adjusted
    variance = float((squares / adjusted**2).sum()) / classes**2
    return float((change / tally.samples).mean()), centre, variance
