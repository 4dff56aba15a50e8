"""The doctor after a lesson: a learner is judged on the test images it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from bntricks.doctor.diagnosis import Verdict
from bntricks.doctor.examine import diagnose
from bntricks.doctor.groups import FEWEST, Labelled

if TYPE_CHECKING:
    from bntricks.training.learner import Learner

Tasks = dict[str, list[Labelled]]


def checkup(learner: Learner) -> Verdict | None:
    """What φ costs, if there are test images of old and new classes; else nothing.

    Balanced moments come from the memory, if it holds every class: these are more images than one
    half of the test images, and all of those are left to measure on.
    """
    tests, memory = learner.tests, learner.memory
    if tests is None or len(learner.groups) < 2 or learner.method.classify != "linear":
        return None
    measured = _by_task(learner, tests.x, tests.y)
    if any(len(y) < FEWEST for [(_, y)] in measured.values()):
        return None
    if memory is not None and memory.x is not None:
        kept = _by_task(learner, memory.x[: len(memory)], memory.y[: len(memory)])
        if all(_covers(kept[name], measured[name]) for name in measured):
            return diagnose(learner.net, kept, held_out=measured).verdict
    return diagnose(learner.net, measured).verdict


def _covers(kept: list[Labelled], measured: list[Labelled]) -> bool:
    [(_, y)], [(_, other)] = kept, measured
    return len(y) >= FEWEST and set(y.tolist()) >= set(other.tolist())


def _by_task(learner: Learner, x: Tensor, y: Tensor) -> Tasks:
    tasks, end = {}, 0
    for index, names in enumerate(learner.groups):
        start, end = end, end + len(names)
        rows = (y >= start) & (y < end)
        seen = learner.view(x[rows.to(x.device)].to(learner.device), None)
        tasks[f"task {index + 1}"] = [(seen, y[rows])]
    return tasks
