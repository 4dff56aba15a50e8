"""The statistics of a comparison, on plain numbers: what runs of the same seeds differ by.

Two runs of one seed share initial weights, order and crops, so differences are taken seed by seed.
The interval is Student's, at 95%, and assumes that differences over seeds are roughly normal; the
p-value is of the sign-flip test, which assumes only that they are symmetric if there is no effect.
With n seeds it cannot fall below 2/2^n. One seed has neither interval nor p-value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95
EXACT_UP_TO = 16
DRAWS = 100_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, its interval, and the p-value of the hypothesis that it is 0."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int = 0


def mean(values: Sequence[float]) -> float | None:
    """The mean; None if there are no values."""
    return float(np.mean(values)) if len(values) else None


def sd(values: Sequence[float]) -> float | None:
    """The sample standard deviation, divided by n - 1; None for fewer than two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def contrast(terms: Sequence[tuple[float, Mapping[int, float]]]) -> list[float]:
    """The weighted sum of several sides' values, for each seed that all of them have."""
    common = set.intersection(*(set(values) for _, values in terms))
    return [sum(weight * values[seed] for weight, values in terms) for seed in sorted(common)]


def estimate(differences: Sequence[float]) -> Estimate:
    """What the differences of some seeds say, with Student's interval of their mean."""
    centre, spread, n = mean(differences), sd(differences), len(differences)
    if centre is None or spread is None:
        return Estimate(centre, n=n)
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * spread / n**0.5
    return Estimate(centre, centre - half, centre + half, sign_flip_p(differences), n)


def sign_flip_p(differences: Sequence[float], *, seed: int = 0) -> float | None:
    """Two-sided: how many of the 2^n ways to flip signs give a mean at least as far from 0. Above
    16 values, an estimate from random flips that counts the observed one, so it is never 0."""
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < 2:
        return None
    # Sums that are equal on paper differ by rounding, and must count as equal.
    reached = abs(values.sum()) - 1e-9 * np.abs(values).sum()
    if len(values) <= EXACT_UP_TO:
        sums = np.zeros(1)
        for value in values:
            sums = np.concatenate([sums + value, sums - value])
        return float(np.mean(np.abs(sums) >= reached))
    # Each value's share of the sums in turn: never a matrix of draws × n.
    generator = np.random.default_rng(seed)
    sums = np.zeros(DRAWS)
    for value in values:
        sums += value * generator.choice((-1.0, 1.0), DRAWS)
    return float((1 + np.count_nonzero(np.abs(sums) >= reached)) / (1 + DRAWS))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's adjustment for testing all of these at once. Those without a p-value stay without,
    and do not count."""
    known = sorted((p, index) for index, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    least = 0.0
    for rank, (p, index) in enumerate(known):
        least = max(least, min(1.0, p * (len(known) - rank)))
        adjusted[index] = least
    return adjusted


def equivalent(low: float, high: float, margin: float) -> bool | None:
    """Whether an interval lies inside ±margin: True, False if wholly outside, None if across."""
    if -margin < low and high < margin:
        return True
    return False if low > margin or high < -margin else None
