"""How costs grow: a step, an evaluation, a checkpoint and the memory of a learner at the far end of
one axis, in units of the near end, measured in the same rounds. What a method itself demands grows
too: GEM takes a gradient for each past task, and iCaRL's classifier passes over all that is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from bntricks.batch import Batch
from bntricks.methods import make
from bntricks.networks.registry import channels_last
from bntricks.networks.resnet import ResNet
from bntricks.recipes.lesson import Lesson
from bntricks.streams import OnProgress
from bntricks.streams.files.progress import silent
from bntricks.training.checkpoint import Checkpoints
from bntricks.training.learner import Learner
from bntricks.training.state import previous
from costs.settings import BATCH, VIEW, random_images
from costs.steps import FAR_AWAY
from costs.timing import Row, Workload, interleaved

EVALUATED = 128
"""Images in an evaluation."""
MOST = {"gem": 2_000, "icarl-bnt": 20_000}
"""Stored images, where a step or an evaluation passes over all of them."""
FLAT = {("er-bnt", "memory"), ("er-bnt", "tasks")}
"""Where a step has no reason to grow."""


@dataclass(frozen=True, slots=True)
class Size:
    """A learner at one end of an axis."""

    tasks: int = 5
    classes: int = 20
    memory: int = 500
    side: int = 32


@dataclass(frozen=True, slots=True)
class GrowthSettings:
    """Which learners grow, and along what."""

    width: int = 64
    side: int = 32
    rounds: int = 15
    methods: tuple[str, ...] = ("er-bnt", "der++-bnt", "icarl-bnt", "gem", "gss")
    tasks: tuple[int, int] = (1, 20)
    classes: tuple[int, int] = (10, 1000)
    memory: tuple[int, int] = (200, 100_000)
    sides: tuple[int, int] = (32, 64)

    def ends(self, method: str) -> Iterator[tuple[str, Size, Size]]:
        """The near and the far end of each axis."""
        most = min(self.memory[1], MOST.get(method, self.memory[1]))
        axes = {
            "tasks": self.tasks,
            "classes": self.classes,
            "memory": (self.memory[0], most),
            "side": self.sides,
        }
        for axis, (near, far) in axes.items():
            base = Size(side=self.side)
            yield axis, replace(base, **{axis: near}), replace(base, **{axis: far})


def measure_growth(settings: GrowthSettings, *, report: OnProgress = silent) -> Iterator[Row]:
    """Four rows for each method and axis."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for method in settings.methods:
            for axis, near, far in settings.ends(method):
                yield from _grown(settings, method, axis, near, far, report)
    finally:
        torch.set_num_threads(threads)


def _grown(
    settings: GrowthSettings, method: str, axis: str, near: Size, far: Size, report: OnProgress
) -> Iterator[Row]:
    name = f"{method}, {axis} {getattr(near, axis):,} to {getattr(far, axis):,}"
    learners = [learner_of(method, size, settings.width) for size in (near, far)]
    with TemporaryDirectory() as folder:
        kinds: dict[str, tuple[Workload, Workload]] = {
            "step": (_step(*learners[0]), _step(*learners[1])),
            "evaluation": (_evaluation(learners[0][0], near), _evaluation(learners[1][0], far)),
            "checkpoint": (
                _checkpoint(learners[0][0], Path(folder) / "near"),
                _checkpoint(learners[1][0], Path(folder) / "far"),
            ),
        }
        for kind, workloads in kinds.items():
            seconds = interleaved(
                dict(zip(("near", "far"), workloads, strict=True)),
                settings.rounds,
                report,
                what=f"{kind} of {name}",
            )
            bound = 1.0 if kind == "step" and (method, axis) in FLAT else None
            note = f"{np.median(seconds['near']):.4f} s, then {np.median(seconds['far']):.4f} s"
            ratios = seconds["far"] / seconds["near"]
            yield Row.of(kind, name, ratios, "× the near end", bound=bound, note=note)
    sizes = [held_bytes(learner) for learner, _, _ in learners]
    note = f"{sizes[0] / 1e6:.1f} MB, then {sizes[1] / 1e6:.1f} MB"
    yield Row.of("memory", name, np.array([sizes[1] / sizes[0]]), "× the near end", note=note)


def learner_of(method: str, size: Size, width: int) -> tuple[Learner, Tensor, Tensor]:
    """A learner in the last of so many tasks, its memory full of random images, and a batch."""
    torch.manual_seed(0)
    recipe = make(method)
    learner = Learner(
        channels_last(ResNet(size.classes, width=width)),
        recipe,
        memory=size.memory,
        lr=0.001,
        view=VIEW,
        tasks=size.tasks,
        epochs=1,
        batch=BATCH,
    )
    tasks = torch.arange(size.classes).tensor_split(size.tasks)
    new = tuple(tasks[-1].tolist())
    old = tuple(label for task in tasks[:-1] for label in task.tolist())
    state, memory = learner.state, learner.memory
    state.lesson = Lesson(size.tasks, new, old, size=10 * BATCH)
    if recipe.teacher == "previous" and old:
        state.teacher = previous(learner.net)
    if memory is not None:
        x = random_images(min(size.memory, 1000), size.side)
        for task, rows in enumerate(torch.arange(size.memory).tensor_split(size.tasks), start=1):
            labels = tasks[task - 1][rows % len(tasks[task - 1])]
            logits = torch.zeros(len(rows), size.classes) if _keeps_logits(method) else None
            memory.append(Batch(x[rows % len(x)], labels, logits, ids=rows), task=task)
        memory.offered = memory.filled
        memory.scores[: memory.filled] = 0.5
    learner.net.train()
    y = tasks[-1][torch.arange(BATCH) % len(tasks[-1])]
    return learner, random_images(BATCH, size.side), y


def held_bytes(learner: Learner) -> int:
    """Of all tensors that a learner keeps between two steps."""

    def size(value: object) -> int:
        if isinstance(value, Tensor):
            return value.numel() * value.element_size()
        return sum(map(size, value.values())) if isinstance(value, dict) else 0

    return size(learner.state_dict())


def _keeps_logits(method: str) -> bool:
    return method.startswith("der")


def _step(learner: Learner, x: Tensor, y: Tensor) -> Workload:
    return partial(learner.observe, x, y, ids=torch.arange(BATCH), horizon=FAR_AWAY)


def _evaluation(learner: Learner, size: Size) -> Workload:
    x = random_images(EVALUATED, size.side)

    def evaluate() -> None:
        learner.state.since_skip = None  # deferred passes matter to the scores, not to their cost
        learner._forget_fit()
        learner.scores(x)

    return evaluate


def _checkpoint(learner: Learner, folder: Path) -> Workload:
    folder.mkdir()
    checkpoints = Checkpoints(folder, {"made": "here"})
    return lambda: checkpoints.save({"learner": learner.state_dict()})
