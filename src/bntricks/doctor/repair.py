"""The repair of a network's φ, with its effect on samples that it was not chosen on."""

from dataclasses import dataclass

from torch import nn

from bntricks.doctor.accuracy import (
    Counterfactual,
    Scores,
    Trial,
    counterfactual,
    inputs_for,
    measure,
    network_outputs,
)
from bntricks.doctor.balanced import balanced_batches
from bntricks.doctor.diagnosis import examine, unsound
from bntricks.doctor.groups import (
    BATCH_SIZE,
    BatchesByGroup,
    first_half,
    halves,
    survey,
    with_text_names,
)
from bntricks.doctor.preprocessing import InputChange, Normalisation
from bntricks.doctor.shares import AS_IS, BALANCED
from bntricks.doctor.verdict import FittingOrder, fitting_order
from bntricks.norm import (
    Moments,
    Phi,
    Statistics,
    check_layers,
    mixed_phi,
    moments,
    phi,
    set_moments,
    set_phi,
)
from bntricks.streams.files.progress import OnProgress, silent

SHRUNK = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the way that φ may go."""


@dataclass(frozen=True, slots=True)
class Repair:
    """The effect of a repair: accuracies before and after."""

    before: Counterfactual
    after: Counterfactual
    """Its `statistics` name what φ was set to."""
    order: FittingOrder | None
    """Another order of classes, if it fits the answers after the repair and theirs does not."""
    share: float = 1.0
    """The share of the new statistics in φ; the rest is what φ was before."""
    input_change: InputChange | None = None
    """A change of the input that explains φ, if it seems to be prepared otherwise than in
    training."""


def repair(
    net: nn.Module,
    batches_by_group: BatchesByGroup,
    *,
    only_balanced: bool = False,
    shrink: bool = False,
    scores: Scores = network_outputs,
    normalised: Normalisation | None = None,
    check_input: bool = True,
    size: int = BATCH_SIZE,
    report: OnProgress = silent,
) -> Repair:
    """Set φ to the best statistics that `diagnose` finds on one half of every class, or to balanced
    ones, and measure accuracy on the other half. With `shrink`, φ moves only a share of the way,
    the one that is most accurate on the first half: the statistics of few images are noisy."""
    check_layers(net)
    batches_by_group = with_text_names(batches_by_group)
    groups = survey(batches_by_group)
    estimating, measuring = halves(groups, batches_by_group)
    was, name, change, share = phi(net), BALANCED, None, 1.0
    if unsound(net):  # so nothing can be compared with them
        report("estimating moments", 0, None)
        joint = balanced_batches(tuple(map(first_half, groups)), estimating, size)
        statistics = moments(net, map(inputs_for(net), joint))
    else:
        how = (None, scores, normalised, check_input, size, report)
        diagnosis, phis = examine(net, batches_by_group, *how)
        name = BALANCED if only_balanced else diagnosis.best.statistics
        statistics, change = phis[name] or _statistics(was), diagnosis.input_change
    set_moments(net, statistics)
    if shrink:
        goal = phi(net)
        mixtures = [mixed_phi(was, goal, each) for each in SHRUNK]
        trials = [Trial(_statistics(each)) for each in mixtures]
        tallies = measure(net, groups, estimating, trials, scores, size, report)
        rates = [counterfactual(k, "", groups, tallies).all for k in range(len(SHRUNK))]
        best = max(range(len(SHRUNK)), key=rates.__getitem__)
        set_phi(net, mixtures[best])
        share = SHRUNK[best]
    trials = [Trial(_statistics(was)), Trial({})]
    tallies = measure(net, groups, measuring, trials, scores, size, report)
    before, after = (counterfactual(k, n, groups, tallies) for k, n in enumerate((AS_IS, name)))
    order = fitting_order(tally.pairs[1] for tally in tallies)
    return Repair(before, after, order, share, change)


def _statistics(values: Phi) -> Statistics:
    return {name: Moments(own["mean"], own["var"], 0) for name, own in values.items()}
