"""The verdict in words, with its evidence and all thresholds.

A cost is claimed only if its 95% interval excludes 0; a lean only from layers where it can be
determined, and only if its interval excludes the balanced share.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log, sqrt
from statistics import median
from typing import Literal

import numpy as np

from bntricks.doctor.accuracy import Counterfactual, Difference
from bntricks.doctor.groups import Group, class_shares
from bntricks.doctor.layers import Layer
from bntricks.errors import abbreviated

CostTo = Literal["old", "newest", "all", "group", "none", "input"]

FAR = 0.3
"""A layer further than this from the population is far: a third of a standard deviation."""
LEANS = 0.1
"""φ leans if its share of the newest group differs by more than this from the balanced one."""
UNSURE = 4.0
"""An interval wider than this many points leaves open whether a repair is worth it."""
VARIED = 0.65
"""Moments are doubtful if batches have less than this share of the classes in shuffled ones."""
DEVIATIONS = 2.0
"""Accuracy within this many standard deviations of guessing is no better than guessing. Another
order fits if it beats guessing by twice what the best of all orders reaches by luck."""
MOST_CLASSES = 2000
"""The most classes to match: matching takes a table of all pairs."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The finding in a sentence, its evidence, and advice."""

    cost: CostTo
    """The classes on which φ measurably costs accuracy; or it is the input that does."""
    headline: str
    evidence: tuple[str, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class FittingOrder:
    """Another order of classes that fits the answers."""

    labels: tuple[int, ...]
    """The label that each output fits; outputs that fit none get the remaining labels, in order."""
    accuracy: float
    fitting_accuracy: float
    """In per cent, with the same weight for every class."""


def judge(
    groups: Sequence[Group],
    layers: Sequence[Layer],
    as_is: Counterfactual,
    balanced: Counterfactual,
    best: Counterfactual | None = None,
) -> Verdict:
    """Judge φ by the best of the statistics that were tried, by default the balanced ones."""
    best = balanced if best is None else best
    cost, headline = _headline(best, as_is, balanced)
    furthest = max(layers, key=lambda layer: layer.distance)
    far = sum(layer.distance > FAR for layer in layers)
    evidence: tuple[str, ...] = (
        f"Accuracy with φ as it is: {as_is.old:.1f}% on the old classes, {as_is.newest:.1f}% on "
        f"the newest ({groups[-1].name}). With balanced φ: {balanced.old:.1f}% and "
        f"{balanced.newest:.1f}%; over all classes {_points(balanced.all_difference)}.",
        f"{_distances(far, len(layers), harmful=cost != 'none')}; the furthest is layer "
        f"{furthest.name} at {furthest.distance:.2f} (means shifted by {furthest.shift:.2f}, log "
        f"variance ratio {furthest.log_ratio:.2f}).",
        _lean(groups, layers),
        _answers(as_is, balanced),
    )
    if best not in (as_is, balanced):
        evidence = (
            f"The best φ was chosen on other samples, that of data with {best.statistics} samples: "
            f"{best.old:.1f}% on the old classes, {best.newest:.1f}% on the newest; over all "
            f"classes {_points(best.all_difference)}.",
            *evidence,
        )
    advice = _advice(best, as_is, balanced)
    return Verdict(cost, headline, tuple(filter(None, evidence)), advice)


def losing(tried: Counterfactual) -> tuple[str, ...]:
    """Describe the classes that measurably lose accuracy with these statistics."""
    parts = {
        "all": tried.all_difference,
        "old": tried.old_difference,
        "newest": tried.newest_difference,
    }
    named = [_on(d, f"{name} classes") for name, d in parts.items() if d.sign < 0]
    groups = [
        _on(difference, f"the classes of {name}")
        for name, difference in _old_groups(tried).items()
        if difference.sign < 0
    ]
    return (*named, *groups)


def fitting_order(pairs_by_group: Iterable[Counter[tuple[int, int]]]) -> FittingOrder | None:
    """Find another order of classes that fits these labels and answers, if theirs does not."""
    from scipy.optimize import linear_sum_assignment

    pairs: Counter[tuple[int, int]] = sum(pairs_by_group, Counter())
    labels = sorted({label for label, _ in pairs})
    outputs = 1 + max(max(pair) for pair in pairs)
    if not 2 <= len(labels) <= MOST_CLASSES or outputs > MOST_CLASSES:
        return None
    samples, counts, totals = pairs.total(), np.zeros((outputs, outputs)), np.zeros(outputs)
    for (label, answer), count in pairs.items():
        totals[label] += count
        if answer >= 0:
            counts[label, answer] += count
    rates = counts / np.maximum(totals, 1)[:, None]
    chance, per_class = 1 / len(labels), samples / len(labels)
    spread = sqrt(chance * (1 - chance))
    accuracy = float(rates.diagonal().sum()) / len(labels)
    _, answers = linear_sum_assignment(rates, maximize=True)
    fitting = float(rates[np.arange(outputs), answers].sum()) / len(labels)
    luck = spread * sqrt(2 * log(len(labels)) / per_class)
    if accuracy > chance + DEVIATIONS * spread / sqrt(samples) or fitting < chance + 2 * luck:
        return None
    return FittingOrder(tuple(np.argsort(answers).tolist()), 100 * accuracy, 100 * fitting)


def order_warning(order: FittingOrder) -> str:
    """Warn that the outputs seem to be in the wrong order."""
    return (
        f"The outputs seem to be in the wrong order: {order.accuracy:.1f}% of the samples are "
        f"right, no better than guessing, and {order.fitting_accuracy:.1f}% would be if the "
        "outputs stood for other classes. Check the order of the classes before anything else."
    )


def remarks(groups: Sequence[Group], unused: Sequence[str]) -> tuple[str, ...]:
    """List reservations about the numbers."""
    uniform = [repr(group.name) for group in groups if group.variety < VARIED]
    notes = []
    if uniform:
        notes.append(
            f"The batches of {abbreviated(uniform, 5)} hold few classes each, so moments of deeper "
            "layers are doubtful: shuffle the samples within a group."
        )
    if unused:
        notes.append(f"Not used by these samples, so not judged: {abbreviated(unused, 5)}.")
    return tuple(notes)


def _distances(far: int, layers: int, *, harmful: bool) -> str:
    if far or not harmful:
        return (
            f"{far} of {layers} layers are further than {FAR} standard deviations from the "
            "balanced population"
        )
    return (
        f"No layer by itself is further than {FAR} standard deviations from the balanced "
        "population, and together they cost accuracy all the same"
    )


def _headline(
    best: Counterfactual, as_is: Counterfactual, balanced: Counterfactual
) -> tuple[CostTo, str]:
    """Name the classes that φ hurts: the first of these, and the newest too."""
    tried = balanced if best is as_is else best
    old, overall = best.old_difference, best.all_difference
    by_points = sorted(_old_groups(best).items(), key=lambda item: -item[1].points)
    parts: list[tuple[CostTo, str, Difference]] = [
        ("old", "on the old classes", old),
        ("all", "over all classes", overall),
        ("newest", "on the newest classes", best.newest_difference),
        *(("group", f"on the classes of {name}", own) for name, own in by_points),
    ]
    hurt = [part for part in parts if part[2].sign > 0]
    if not hurt:
        return "none", (
            "BatchNorm statistics have no measurable cost for this model: with "
            f"{_named(tried, balanced)}, {_points(tried.old_difference)} on the old classes and "
            f"{_points(tried.all_difference)} over all."
        )
    named = [hurt[0], *(part for part in hurt[1:] if part[0] == "newest")]
    costs = " and ".join(
        f"{cost.points:.1f} points {where} (95% interval {cost.interval})"
        for _, where, cost in named
    )
    against = "" if best is balanced else f", against {_named(best, balanced)}"
    return hurt[0][0], f"BatchNorm statistics alone cost this model {costs}{against}."


def _lean(groups: Sequence[Group], layers: Sequence[Layer]) -> str:
    newest, even = groups[-1].name, class_shares(groups)[-1]
    shares = [layer.shares[newest] for layer in layers if layer.shares is not None]
    if not shares:
        return (
            "Whose moments φ follows cannot be determined in any layer: the groups are too alike, "
            "or φ is like no mixture of them."
        )
    share = median(shares)
    # Layers see the same samples, so the median is about as uncertain as any one of them.
    margin = median(layer.newest_margin or 0.0 for layer in layers if layer.shares is not None)
    low, high = max(0.0, share - margin), min(1.0, share + margin)
    leans = "does not lean measurably with respect to"
    if abs(share - even) > LEANS and not low <= even <= high:
        leans = "leans towards" if share > even else "leans away from"
    return (
        f"φ {leans} the newest group ({newest}): its share is {share:.2f} (95% interval {low:.2f} "
        f"to {high:.2f}) in the median of {len(shares)} layer{'s' * (len(shares) != 1)} where it "
        f"can be determined; {even:.2f} is balanced."
    )


def _answers(as_is: Counterfactual, balanced: Counterfactual) -> str:
    if as_is.old_as_newest is None or balanced.old_as_newest is None:
        return ""
    return (
        f"{as_is.old_as_newest:.1f}% of the samples of old classes are taken for a class of the "
        f"newest group; with balanced φ, {balanced.old_as_newest:.1f}%."
    )


def _named(tried: Counterfactual, balanced: Counterfactual) -> str:
    """Name statistics in a sentence."""
    return "balanced ones" if tried is balanced else f"those of {tried.statistics} samples"


def _advice(best: Counterfactual, as_is: Counterfactual, balanced: Counterfactual) -> str:
    if best is as_is:
        change = _points(balanced.all_difference)
        return f"Leave φ as it is: balanced statistics would change {change} over all."
    overall, lost = best.all_difference, losing(best)
    data = "balanced data" if best is balanced else f"data with {best.statistics} samples"
    if overall.sign > 0 and lost:
        return (
            f"Recalibrate φ on {data} only if all classes matter alike: {_points(overall)} over "
            f"all, but {', '.join(lost)}."
        )
    if overall.sign > 0:
        return f"Recalibrate φ on {data}: {_points(overall)} over all classes."
    if overall.sign < 0:
        return f"Leave φ as it is: balanced statistics would change {_points(overall)} over all."
    parts = {"old": best.old_difference, "newest": best.newest_difference}
    gained = [_on(d, f"{name} classes") for name, d in parts.items() if d.sign > 0]
    if gained and lost:
        return (
            f"Recalibrating φ moves accuracy: {', '.join((*gained, *lost))}, and no measurable "
            "change over all."
        )
    if gained or any(difference.sign > 0 for difference in _old_groups(best).values()):
        return "Recalibrating φ would help these classes, with no measurable change over all."
    if overall.high - overall.low > UNSURE:
        return "These samples are too few to tell whether recalibrating φ would help: give more."
    return "Recalibrating φ would not change accuracy measurably."


def _old_groups(tried: Counterfactual) -> dict[str, Difference]:
    """Return the difference of each old group, if there are several."""
    old = list(tried.differences.items())[:-1]
    return dict(old) if len(old) > 1 else {}


def _on(difference: Difference, classes: str) -> str:
    return f"{difference.signed} points on {classes} ({difference.interval})"


def _points(difference: Difference) -> str:
    return f"{difference.signed} points ({difference.interval})"
