"""The confidence level of every interval, and the sign of one."""

from statistics import NormalDist
from typing import Literal

CONFIDENCE = 0.95


def normal_quantile(among: int = 1) -> float:
    """Return half the width of an interval, in standard errors; one `among` several intervals is
    as wide as all of them together need (Bonferroni)."""
    return NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / (2 * among))


def sign(low: float, high: float, digits: int) -> Literal[-1, 0, 1]:
    """Return the sign of an interval as printed; 0 if it includes 0."""
    return 1 if round(low, digits) > 0 else -1 if round(high, digits) < 0 else 0
