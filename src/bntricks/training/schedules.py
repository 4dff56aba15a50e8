"""How the learning rate changes while a task is learned, by name."""

from collections.abc import Callable
from math import cos, pi

from bntricks.plugins.registry import Registry

Schedule = Callable[[float], float]
"""A function from the share of a task's steps that is over, in [0, 1), to a factor of the rate."""

SCHEDULES: Registry[Schedule] = Registry("schedule")

WARM_UP = 0.1
DROPS = (0.5, 0.75)


@SCHEDULES.named("constant")
def constant(done: float) -> float:
    """The same rate in every step, as in the paper."""
    return 1.0


@SCHEDULES.named("one-cycle")
def one_cycle(done: float) -> float:
    """Rise linearly during the first tenth, then fall along a cosine to nothing: the last steps
    move θ so little that φ, which is tracked before each step, fits it."""
    if done < WARM_UP:
        return (0.05 * WARM_UP + done) / (1.05 * WARM_UP)
    return (1 + cos(pi * (done - WARM_UP) / (1 - WARM_UP))) / 2


@SCHEDULES.named("cosine")
def cosine(done: float) -> float:
    """Fall along half a cosine, from the whole rate to nothing (Loshchilov & Hutter 2017)."""
    return (1 + cos(pi * done)) / 2


@SCHEDULES.named("steps")
def steps(done: float) -> float:
    """Drop to a tenth after half of a task's steps, and to a hundredth after three quarters, as in
    the first ResNets (He et al. 2016)."""
    return 0.1 ** sum(done >= drop for drop in DROPS)
