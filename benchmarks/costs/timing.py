"""Ratios on a noisy machine: every round measures each workload once, one after the other, so that
both sides of a ratio share the round's noise. Reported is the median over rounds, with its 95%
interval."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bntricks.streams import OnProgress

Workload = Callable[[], object]
"""What is measured by calling it."""
Values = np.ndarray[Any, np.dtype[np.float64]]
"""Seconds or ratios, one for each round."""

SLACK = 1.03
"""A median this much above its bound may still be noise."""


@dataclass(frozen=True, slots=True)
class Row:
    """A ratio: its median, the 95% interval of the median, and what was to be reached."""

    part: str
    name: str
    unit: str
    ratio: float
    low: float
    high: float
    bound: float | None = None
    met: bool | None = None
    note: str = ""

    @classmethod
    def of(
        cls,
        part: str,
        name: str,
        ratios: Values,
        unit: str,
        *,
        bound: float | None = None,
        note: str = "",
    ) -> Row:
        """A bound is met if the interval reaches below it and the median is within 3% of it."""
        low, high = median_interval(ratios)
        median = float(np.median(ratios))
        met = None if bound is None else low <= bound and median <= SLACK * bound
        return cls(part, name, unit, median, low, high, bound, met, note)


def interleaved(
    workloads: Mapping[str, Workload],
    rounds: int,
    report: OnProgress,
    *,
    what: str,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Values]:
    """The seconds of each workload in every round, after one round that warms up and is not
    counted."""
    seconds = {name: np.empty(rounds) for name in workloads}
    for index in range(-1, rounds):
        report(f"measuring {what}", index + 1, rounds + 1)
        for name, work in workloads.items():
            start = clock()
            work()
            if index >= 0:
                seconds[name][index] = clock() - start
    return seconds


def median_interval(values: Values) -> tuple[float, float]:
    """Where the median lies with 95% confidence, by order statistics."""
    ordered = np.sort(values)
    middle, half = (len(ordered) - 1) / 2, 0.98 * np.sqrt(len(ordered))  # 1.96 · √(n · ½ · ½)
    low = ordered[max(int(np.floor(middle - half)), 0)]
    high = ordered[min(int(np.ceil(middle + half)), len(ordered) - 1)]
    return float(low), float(high)
