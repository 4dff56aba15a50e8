"""The confidence level of every interval."""

from statistics import NormalDist

CONFIDENCE = 0.95


def normal_quantile(among: int = 1) -> float:
    """Return half the width of an interval, in standard errors; one `among` several intervals is
    as wide as all of them together need (Bonferroni)."""
    return NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / (2 * among))
