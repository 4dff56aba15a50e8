"""How the learning rate changes while a task is learned, by name."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi

from bntricks.registry import Registry

Schedule = Callable[[float], float]
"""From the share of a task's steps that is over, from 0 to below 1, to a factor of the rate."""

SCHEDULES: Registry[Schedule] = Registry("schedule")

WARM_UP = 0.1


@SCHEDULES.named("constant")
def constant(done: float) -> float:
    """The same rate in every step, as in the paper."""
    return 1.0


@SCHEDULES.named("one-cycle")
def one_cycle(done: float) -> float:
    """Up in a straight line during the first tenth, then down along a cosine to nothing: the last
    steps move θ so little that φ, which is tracked before each step, fits it."""
    if done < WARM_UP:
        return (0.05 * WARM_UP + done) / (1.05 * WARM_UP)
    return (1 + cos(pi * (done - WARM_UP) / (1 - WARM_UP))) / 2
