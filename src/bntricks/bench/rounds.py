"""Ratios on a noisy machine: every round measures each subject once, one after the other, so that a
round's ratio shares its noise; the median over rounds is reported with a 95% interval."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Subject = Callable[[], object]
Report = Callable[[str, int, int], None]
Seconds = np.ndarray[Any, np.dtype[np.float64]]

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


def interleaved(
    subjects: Mapping[str, Subject],
    rounds: int,
    report: Report,
    *,
    what: str,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Seconds]:
    """What each took in every round, after one round that warms up and is not counted."""
    found = {name: np.empty(rounds) for name in subjects}
    for index in range(-1, rounds):
        report(f"measuring {what}", index + 1, rounds + 1)
        for name, subject in subjects.items():
            start = clock()
            subject()
            if index >= 0:
                found[name][index] = clock() - start
    return found


def row(
    part: str,
    name: str,
    ratios: Seconds,
    unit: str,
    *,
    bound: float | None = None,
    note: str = "",
) -> Row:
    """A bound is met if the interval reaches below it and the median is within 3% of it."""
    low, high = interval(ratios)
    median = float(np.median(ratios))
    met = None if bound is None else low <= bound and median <= SLACK * bound
    return Row(part, name, unit, median, low, high, bound, met, note)


def interval(values: Seconds) -> tuple[float, float]:
    """Where the median lies with 95% confidence, by order statistics."""
    ordered = np.sort(values)
    middle, half = (len(ordered) - 1) / 2, 0.98 * np.sqrt(len(ordered))  # 1.96 · √(n · ½ · ½)
    low = ordered[max(int(np.floor(middle - half)), 0)]
    high = ordered[min(int(np.ceil(middle + half)), len(ordered) - 1)]
    return float(low), float(high)
