"""The statistics of a comparison: differences between runs of the same seeds.

Two runs of one seed share initial weights, order and crops, so differences are taken seed by seed.
Interval and p-value are of the same test, Student's, so they never disagree: p is below 5% where
the 95% interval excludes the tested value. It assumes that differences over seeds are roughly
normal. One seed has neither interval nor p-value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from bntricks.intervals import CONFIDENCE


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, its interval, and the p-value of the tested hypothesis."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int = 0


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None if there are no values."""
    return float(np.mean(values)) if len(values) else None


def sd(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation, divided by n - 1; None for fewer than two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def contrast(terms: Sequence[tuple[float, Mapping[int, float]]]) -> list[float]:
    """Return the weighted sum of several sides' values, for each seed that all of them have."""
    common = set.intersection(*(set(values) for _, values in terms))
    return [sum(weight * values[seed] for weight, values in terms) for seed in sorted(common)]


def estimate(
    differences: Sequence[float], margin: float = 0.0, *, one_sided: bool = False
) -> Estimate:
    """Estimate the mean difference by Student's interval, with the two-sided p-value of a mean of
    0. With a margin, the hypothesis is a mean at the nearer of its two ends: p is small if the mean
    is certainly inside, or certainly outside. A `one_sided` margin has its positive end only."""
    centre, spread, n = mean(differences), sd(differences), len(differences)
    if centre is None or spread is None:
        return Estimate(centre, n=n)
    error = spread / n**0.5
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * error
    distance = abs((centre if one_sided else abs(centre)) - margin)
    t = distance / error if error else float("inf") if distance else 0.0
    return Estimate(centre, centre - half, centre + half, 2 * float(stdtr(n - 1, -t)), n)


def difference(a: Mapping[int, float], b: Mapping[int, float]) -> Estimate:
    """Estimate the difference of A and B over the seeds that both have."""
    return estimate(contrast([(1.0, a), (-1.0, b)]))


def welch(terms: Sequence[tuple[float, float, float]], n: int) -> tuple[float, float]:
    """Return the interval of a weighted sum of means, each given as weight, mean and standard
    deviation over n independent runs."""
    centre = sum(weight * mean for weight, mean, _ in terms)
    variances = [weight**2 * sd**2 / n for weight, _, sd in terms]
    total = sum(variances)
    if not total:
        return centre, centre
    freedom = total**2 / sum(variance**2 / (n - 1) for variance in variances)
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * total**0.5
    return centre - half, centre + half


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values for testing all of them at once (Holm). None stays None."""
    known = sorted((p, index) for index, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    least = 0.0
    for rank, (p, index) in enumerate(known):
        least = max(least, min(1.0, p * (len(known) - rank)))
        adjusted[index] = least
    return adjusted


def equivalent(low: float, high: float, margin: float) -> bool | None:
    """Say whether an interval lies inside ±margin: True, False (outside), or None (across)."""
    if -margin < low and high < margin:
        return True
    return False if low > margin or high < -margin else None
