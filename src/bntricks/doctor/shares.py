"""φ with more and more samples of the newest group, and the choice of the best among all that are
tried."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from torch import nn

from bntricks.doctor.accuracy import Counterfactual, Scores, Trial, counterfactual, measure
from bntricks.doctor.groups import BatchesByGroup, Group, class_shares
from bntricks.norm import Statistics
from bntricks.streams.files.progress import OnProgress

AS_IS = "as it is"
BALANCED = "balanced"
SHARES = tuple(Fraction(k, 5) for k in range(6))
"""Shares of the newest group, as in the explorer of `bnt run --probe phi`."""
ALIKE = 0.05
"""Shares that differ by no more are not tried twice."""


def other_shares(groups: Sequence[Group]) -> list[Fraction]:
    """Return the shares that differ from the balanced one."""
    even = class_shares(groups)[-1]
    return [share for share in SHARES if abs(share - even) > ALIKE]


def share_name(newest: Fraction) -> str:
    return f"{float(newest):.0%} newest"


def chosen(
    phis: Mapping[str, Statistics],
    net: nn.Module,
    groups: Sequence[Group],
    batches_by_group: BatchesByGroup,
    scores: Scores,
    size: int,
    report: OnProgress,
) -> str:
    """Choose the φ with the best accuracy over all classes on these samples: the balanced one,
    unless another is measurably better; and the network's own, if that is measurably better than
    the balanced one and no other is better still."""

    def better(than: str, names: Iterable[str]) -> list[Counterfactual]:
        """List those that are measurably better than this one, the best first."""
        names = [than, *(name for name in names if name != than)]
        trials = [Trial(phis[name]) for name in names]
        tallies = measure(net, groups, batches_by_group, trials, scores, size, report)
        tried = [counterfactual(row, name, groups, tallies) for row, name in enumerate(names)]
        found = [each for each in tried if each.all_difference.sign > 0]
        return sorted(found, key=lambda each: -each.all)

    found = [each.statistics for each in better(BALANCED, phis)]
    if AS_IS in found[1:]:
        found = [each.statistics for each in better(AS_IS, found)] or [AS_IS]
    return found[0] if found else BALANCED
