"""Every method's step, with augmentation, replay, memory and all, in units of raw32: one plain
forward, backward and SGD step of 32 images."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from bntricks.batch import Batch
from bntricks.methods import entries, make
from bntricks.networks.registry import channels_last
from bntricks.networks.resnet import ResNet
from bntricks.recipes.gradient_greedy import GradientGreedy
from bntricks.recipes.language import Method
from bntricks.recipes.policies import stored
from bntricks.streams import OnProgress
from bntricks.training.learner import Learner
from costs.plain_pytorch import plain_steps
from costs.settings import BATCH, CAPACITY, CLASSES, VIEW, Settings, random_images
from costs.timing import Row, Workload, interleaved

PAST_TASKS = 3
FAR_AWAY = 10**6
"""Steps until φ is read: so many that a deferred tracking pass is left out."""
BOUNDS = {
    "er": 2.05,
    "er-bnt": 2.05,
    "der++": 3.1,
    "der++-bnt": 2.05,
    "icarl": 1.45,
    "a-gem": 2.1,
    "fdr": 2.1,
    "lwf": 1.1,
    "gss, gate closed": 4.5,
    "gss, gate open": 7.0,
    "gem": 11.5,
}


def steps(settings: Settings, report: OnProgress) -> list[Row]:
    names = settings.methods or tuple(entries())
    raw = plain_steps(settings.width, settings.side, passes=1, batch=BATCH)
    workloads: dict[str, Workload] = {"raw32": raw}
    for done, name in enumerate(names):
        report("preparing the methods", done, len(names))
        workloads |= method_steps(name, settings)
    seconds = interleaved(workloads, settings.rounds, report, what="steps")
    raw32 = seconds.pop("raw32")
    spread = np.std(raw32) / np.mean(raw32)
    note = f"raw32: {np.median(raw32):.3f} s ± {spread:.0%}"
    return [
        Row.of("step", name, of_method / raw32, "× raw32", bound=BOUNDS.get(name), note=note)
        for name, of_method in seconds.items()
    ]


def method_steps(name: str, settings: Settings) -> dict[str, Workload]:
    """A step of this method in its fourth task, with its memory full; GSS with its gate closed and
    open."""
    method = make(name)
    if not isinstance(method.memory, GradientGreedy):
        return {name: method_step(method, settings)}
    gates = {"closed": -math.inf, "open": math.inf}
    return {
        f"{name}, gate {position}": method_step(
            replace(method, memory=replace(method.memory, gate=gate)), settings
        )
        for position, gate in gates.items()
    }


def method_step(method: Method, settings: Settings) -> Workload:
    learner, x, y = learner_in_fourth_task(method, settings)
    return lambda: learner.observe(x, y, ids=torch.arange(BATCH), horizon=FAR_AWAY)


def learner_in_fourth_task(
    method: Method, settings: Settings, net: nn.Module | None = None
) -> tuple[Learner, Tensor, Tensor]:
    """A learner that has seen three tasks of random images, and a batch of the fourth."""
    torch.manual_seed(0)
    learner = Learner(
        net or channels_last(ResNet(CLASSES, width=settings.width)),
        method,
        memory=CAPACITY,
        lr=0.001,
        view=VIEW,
        tasks=CAPACITY // 100,
        epochs=1,
        batch=BATCH,
    )
    x = random_images(200, settings.side)
    for task in range(PAST_TASKS + 1):
        classes = torch.tensor([2 * task, 2 * task + 1])
        y = classes[torch.arange(200) % 2]
        learner.begin(classes.tolist(), x, y)
        if task == PAST_TASKS:
            break
        if method.memory is not None and method.memory.fills == "step":
            fill_memory(learner, x, y)
        learner.end(x, y)
    return learner, x[:BATCH], y[:BATCH]


def fill_memory(learner: Learner, x: Tensor, y: Tensor) -> None:
    """Put a task's images into memory without training on them."""
    memory = stored(learner.state)
    count = min(len(y), memory.capacity - memory.filled)
    logits = torch.zeros(count, CLASSES)
    memory.append(Batch(x[:count], y[:count], logits), task=learner.state.lesson.t)
    memory.offered = memory.filled
    memory.scores[: memory.filled] = 0.5
