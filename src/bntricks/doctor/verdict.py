"""The finding in words, with the numbers it rests on. Every threshold is here.

A cost is claimed only if its 95% interval excludes 0; a lean only from layers where it can be
determined, and only if its interval excludes the balanced share.
"""

from __future__ import annotations

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

CostTo = Literal["old", "newest", "all", "group", "none"]

FAR = 0.3
"""A layer further than this from the population counts as far: about a third of a standard
deviation."""
LEANS = 0.1
"""φ leans when its share of a group is this much above or below the balanced one."""
UNSURE = 4.0
"""An interval wider than this many points leaves open whether a repair would be worth it."""
VARIED = 0.65
"""Batches with less than this share of the classes that they would have if all samples were
shuffled make moments doubtful."""
DEVIATIONS = 2.0
"""Accuracy within so many standard deviations of guessing is no better than guessing, and another
order fits if it is further than twice what the best of all orders reaches by luck."""
MOST_CLASSES = 2000
"""Matching takes a table of all pairs."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The finding in a sentence, what it rests on, and what to do."""

    cost: CostTo
    """Where φ measurably costs accuracy."""
    headline: str
    evidence: tuple[str, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class FittingOrder:
    """Another order of classes, which fits the answers."""

    labels: tuple[int, ...]
    """The label that each output fits; outputs that fit none keep what is left, in order."""
    accuracy: float
    fitting_accuracy: float
    """In per cent, every class counting the same."""


def judge(
    groups: Sequence[Group],
    layers: Sequence[Layer],
    as_is: Counterfactual,
    balanced: Counterfactual,
) -> Verdict:
    cost, headline = _headline(balanced)
    furthest = max(layers, key=lambda layer: layer.distance)
    far = sum(layer.distance > FAR for layer in layers)
    evidence = (
        f"Accuracy with φ as it is: {as_is.old:.1f}% on the old classes, {as_is.newest:.1f}% on "
        f"the newest ({groups[-1].name}). With balanced φ: {balanced.old:.1f}% and "
        f"{balanced.newest:.1f}%; over all classes {_points(balanced.all_difference)}.",
        f"{far} of {len(layers)} layers are further than {FAR} standard deviations from the "
        f"balanced population; the furthest is layer {furthest.name} at {furthest.distance:.2f} "
        f"(means shifted by {furthest.shift:.2f}, log variance ratio {furthest.log_ratio:.2f}).",
        _lean(groups, layers),
        _answers(as_is, balanced),
    )
    return Verdict(cost, headline, tuple(filter(None, evidence)), _advice(balanced))


def losing(tried: Counterfactual) -> tuple[str, ...]:
    """The classes that measurably lose accuracy with these statistics, in words."""
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
    """The order that fits these pairs of label and answer, if theirs does not and another does."""
    from scipy.optimize import linear_sum_assignment

    pairs: Counter[tuple[int, int]] = sum(pairs_by_group, Counter())
    labels = sorted({label for label, _ in pairs})
    outputs = 1 + max(max(pair) for pair in pairs)
    if not 2 <= len(labels) <= MOST_CLASSES or outputs > MOST_CLASSES:
        return None
    counts = np.zeros((outputs, outputs))
    for (label, answer), count in pairs.items():
        if answer >= 0:
            counts[label, answer] += count
    samples = sum(pairs.values())
    totals = np.zeros(outputs)
    for (label, _), count in pairs.items():
        totals[label] += count
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
    """What to know before anything else is believed."""
    return (
        f"The outputs seem to be in the wrong order: {order.accuracy:.1f}% of the samples are "
        f"right, no better than guessing, and {order.fitting_accuracy:.1f}% would be if the "
        "outputs stood for other classes. Check the order of the classes before anything else."
    )


def remarks(groups: Sequence[Group], unused: Sequence[str]) -> tuple[str, ...]:
    """What a reader should know before trusting the numbers."""
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


def _headline(balanced: Counterfactual) -> tuple[CostTo, str]:
    """Names who is hurt: the first of these, and the newest classes if they are too."""
    old, overall = balanced.old_difference, balanced.all_difference
    by_points = sorted(_old_groups(balanced).items(), key=lambda item: -item[1].points)
    parts: list[tuple[CostTo, str, Difference]] = [
        ("old", "on the old classes", old),
        ("all", "over all classes", overall),
        ("newest", "on the newest classes", balanced.newest_difference),
        *(("group", f"on the classes of {name}", own) for name, own in by_points),
    ]
    hurt = [part for part in parts if part[2].sign > 0]
    if not hurt:
        return "none", (
            "BatchNorm statistics have no measurable cost for this model: with balanced ones, "
            f"{_points(old)} on the old classes and {_points(overall)} over all."
        )
    named = [hurt[0], *(part for part in hurt[1:] if part[0] == "newest")]
    costs = " and ".join(
        f"{cost.points:.1f} points {where} (95% interval {cost.interval})"
        for _, where, cost in named
    )
    return hurt[0][0], f"BatchNorm statistics alone cost this model {costs}."


def _lean(groups: Sequence[Group], layers: Sequence[Layer]) -> str:
    newest, even = groups[-1].name, class_shares(groups)[-1]
    shares = [layer.shares[newest] for layer in layers if layer.shares is not None]
    if not shares:
        return (
            "Whose moments φ follows cannot be determined in any layer: the groups are too alike, "
            "or φ is like no mixture of them."
        )
    share = median(shares)
    # Layers see the same samples, so that the median is about as uncertain as any one of them.
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


def _advice(balanced: Counterfactual) -> str:
    overall, lost = balanced.all_difference, losing(balanced)
    if overall.sign > 0 and lost:
        return (
            "Recalibrate φ on balanced data only if all classes matter alike: "
            f"{_points(overall)} over all, but {', '.join(lost)}."
        )
    if overall.sign > 0:
        return f"Recalibrate φ on balanced data: {_points(overall)} over all classes."
    if overall.sign < 0:
        return f"Leave φ as it is: balanced statistics would change {_points(overall)} over all."
    parts = {"old": balanced.old_difference, "newest": balanced.newest_difference}
    gained = [_on(d, f"{name} classes") for name, d in parts.items() if d.sign > 0]
    if gained and lost:
        return (
            f"Recalibrating φ moves accuracy: {', '.join((*gained, *lost))}, and no measurable "
            "change over all."
        )
    if gained or any(difference.sign > 0 for difference in _old_groups(balanced).values()):
        return "Recalibrating φ would help these classes, with no measurable change over all."
    if overall.high - overall.low > UNSURE:
        return "These samples are too few to tell whether recalibrating φ would help: give more."
    return "Recalibrating φ would not change accuracy measurably."


def _old_groups(tried: Counterfactual) -> dict[str, Difference]:
    """Of each old group, where there are several; a single one is what is called old."""
    old = list(tried.differences.items())[:-1]
    return dict(old) if len(old) > 1 else {}


def _on(difference: Difference, classes: str) -> str:
    return f"{difference.signed} points on {classes} ({difference.interval})"


def _points(difference: Difference) -> str:
    return f"{difference.signed} points ({difference.interval})"
