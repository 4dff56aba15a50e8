"""The confidence level of every interval, those of shares, and the sign of one."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean
from typing import Literal

CONFIDENCE = 0.95


def normal_quantile(among: int = 1) -> float:
    """Return half the width of an interval, in standard errors; one `among` several intervals is
    as wide as all of them together need (Bonferroni)."""
    return NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / (2 * among))


def sign(low: float, high: float, digits: int) -> Literal[-1, 0, 1]:
    """Return the sign of an interval as printed; 0 if it includes 0."""
    return 1 if round(low, digits) > 0 else -1 if round(high, digits) < 0 else 0


def mean_share(counts: Sequence[tuple[int, int]]) -> tuple[float, float, float] | None:
    """Return the mean over classes of the share of right samples, in percent, with its interval;
    None if a class has no samples. `counts` are right ones, and all, of each. The interval is
    Wald's after adding four samples, two of them right, which the classes share (Agresti and Coull
    1998)."""
    classes = len(counts)
    if not classes or not all(samples for _, samples in counts):
        return None
    adjusted = [(right + 2 / classes, samples + 4 / classes) for right, samples in counts]
    shares = [right / samples for right, samples in adjusted]
    errors = [p * (1 - p) / n for p, (_, n) in zip(shares, adjusted, strict=True)]
    middle, half = fmean(shares), normal_quantile() * sqrt(sum(errors)) / classes
    mean = fmean(right / samples for right, samples in counts)
    return 100 * mean, 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def paired_change(
    counts: Sequence[tuple[int, int, int]], *, among: int = 1
) -> tuple[float, float, float]:
    """Return the mean over classes of the change of accuracy, in percent, with its interval.
    `counts` are the samples of each class that were gained, those that were lost, and all. The
    interval is Wald's for paired shares after adding half a sample to each cell, which the classes
    share (Agresti and Min 2005), so that few samples, or none that changed, do not look certain."""
    classes = len(counts)
    centres, errors = [], []
    for gained, lost, samples in counts:
        adjusted = samples + 2 / classes
        centre = (gained - lost) / adjusted
        centres.append(centre)
        squares = gained + lost + 1 / classes - centre * (gained - lost)
        errors.append(squares / adjusted**2)
    middle, half = fmean(centres), normal_quantile(among) * sqrt(sum(errors)) / classes
    change = fmean((gained - lost) / samples for gained, lost, samples in counts)
    return 100 * change, 100 * (middle - half), 100 * (middle + half)
