"""The gate: whether what a lesson made of a model may take its place, judged by images of the old
classes that neither trained it nor chose anything.

An old class can lose accuracy in two ways. It is *forgotten* if it is told apart from the other old
classes less well than before; no lesson need cost that. It is *confused* if new classes take its
images: among more classes the question is harder, so some of this is no fault of the lesson."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from torch import Tensor

from bntricks.errors import abbreviated
from bntricks.files import shown
from bntricks.intervals import paired_change

if TYPE_CHECKING:
    from bntricks.memory import Memory

FEW = 10
"""A class with fewer confirming images is not judged by itself,"""
TOO_FEW = 20
"""and with fewer of all old classes no interval can tell: then the loss is counted in images."""
MOST_LOST = 2
"""Images that may be lost where they are too few to tell."""
TAKEN = 1 / 3
"""The share of its accuracy that a class may lose to new classes."""
LISTED = 6
"""Classes that are named in a sentence, at most."""


@dataclass(frozen=True, slots=True)
class Change:
    """Points of accuracy that old classes gained, with the interval, paired over images."""

    points: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.points:+.1f} points ({self.low:+.1f} to {self.high:+.1f})"


@dataclass(frozen=True, slots=True)
class Gate:
    """The judgement on a lesson."""

    images: int
    """Of old classes, that confirm."""
    before: float
    """The accuracy on the old classes in percent, with the same weight for each."""
    after: float
    change: Change
    """On the old classes, among all classes."""
    forgetting: Change
    """The same among the old classes alone."""
    taken: tuple[tuple[str, str, int], ...]
    """Pairs of an old class and a new one that takes its images, with how many it took that were
    recognised before; most first."""
    refused: str | None = None
    """Why the model is not to be replaced."""
    fell: bool = False
    """Whether the accuracy on the old classes, or one of them, fell measurably."""
    forgot: bool = False
    """Whether it is refused for what was forgotten, not for what new classes took."""


def judge(
    y: Tensor, before: Tensor, among: Tensor, after: Tensor, classes: Sequence[str], old: int
) -> Gate | None:
    """Judge by images with these labels, of the first `old` classes: what they were taken for
    before, now among the old classes, and now among all."""
    labels = sorted(set(y.tolist()))
    if not labels:
        return None
    was = before == y

    def counts(now: Tensor, of: Sequence[int]) -> list[tuple[int, int, int]]:
        gained, lost = ~was & (now == y), was & (now != y)
        own = [y == label for label in of]
        return [(int((o & gained).sum()), int((o & lost).sum()), int(o.sum())) for o in own]

    def change(now: Tensor, *of: int) -> Change:
        return Change(*paired_change(counts(now, of or labels), among=len(single) if of else 1))

    single = [label for label in labels if int((y == label).sum()) >= FEW]
    lost = was & (after >= old)
    pairs = Counter(zip(y[lost].tolist(), after[lost].tolist(), strict=True)).most_common()
    taken = tuple((classes[label], classes[by], count) for (label, by), count in pairs)
    overall, forgetting = change(after), change(among)
    rates, later = (
        {label: float(right[y == label].double().mean()) for label in labels}
        for right in (was, after == y)
    )
    refused = []
    if len(y) < TOO_FEW:
        gone = sum(losses - gains for gains, losses, _ in counts(among, labels))
        if gone > MOST_LOST:
            refused.append(f"of {len(y)} test images of old classes, {gone} more are wrong")
    elif forgetting.high < 0:
        refused.append(f"old classes are told apart less well: {forgetting}")
    for label in single:
        own, name = change(among, label), shown(classes[label])
        if own.high < 0:
            refused.append(f"{name} is told apart from the other old classes less well: {own}")
    forgot = bool(refused)
    for label in single:
        own, rate = change(after, label), 100 * rates[label]
        if own.high < -TAKEN * rate and not forgot:
            refused.append(
                f"{shown(classes[label])} lost more than a third of its {rate:.1f}% to new "
                f"classes: {own}"
            )
    earlier, now = (100 * fmean(each.values()) for each in (rates, later))
    reason = abbreviated(refused, LISTED) if refused else None
    fell = overall.high < 0 or any(change(after, label).high < 0 for label in single)
    return Gate(len(y), earlier, now, overall, forgetting, taken, reason, fell, forgot)


def words(gate: Gate, memory: Memory | None, *, trained: bool) -> str | None:
    """Say what old classes lost, how, and what helps, also by whether the network was trained; None
    if they lost nothing measurable."""
    if gate.refused is None and not gate.fell:
        return None
    pairs = [f"{shown(label)} for {shown(by)} ({count})" for label, by, count in gate.taken]
    lost = f"Old classes changed from {gate.before:.1f}% to {gate.after:.1f}%: {gate.change}"
    full = memory is not None and len(memory) == memory.capacity
    if not gate.forgot:
        larger = "so may a larger memory" if full else "a larger memory does not"
        return (
            f"{lost}. They are confused with new ones, not forgotten: "
            f"{abbreviated(pairs, LISTED)}. Larger images, more images of these classes, or a "
            f"pretrained network as backbone tell them apart; {larger}."
        )
    advice = "More images of all classes help"
    if trained:
        advice = "Teach it at a lower learning rate, or leave rate and epochs to their defaults"
    if trained and full:
        advice += "; a new model with a larger memory would keep them better"
    return f"{lost}; among the old classes alone {gate.forgetting}: they are forgotten. {advice}."
