"""How sure a measured number is: the confidence that every interval has."""

from __future__ import annotations

from statistics import NormalDist

CONFIDENCE = 0.95


def normal_quantile(among: int = 1) -> float:
    """Half the width of an interval in standard errors; Bonferroni's, for one among several."""
    return NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / (2 * among))
