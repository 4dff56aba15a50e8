"""Every method's step, with augmentation, replay, memory and all, in units of raw32: one plain
forward, backward and SGD step of 32 images."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from bntricks.batch import Batch
from bntricks.bench.raw import raw_steps
from bntricks.bench.rounds import Report, Row, Subject, interleaved, row
from bntricks.bench.setting import BATCH, CLASSES, MEMORY, VIEW, Setting, images
from bntricks.methods import entries, make
from bntricks.networks.resnet import ResNet
from bntricks.recipes.language import Method
from bntricks.recipes.policies import GradientGreedy, stored
from bntricks.training.learner import Learner

PAST = 3
FAR = 10**6
"""Steps until φ is read: so far that a deferred tracking pass is left out."""
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


def steps(setting: Setting, report: Report) -> list[Row]:
    names = setting.methods or tuple(entries())
    raw = raw_steps(setting.width, setting.side, passes=1, batch=BATCH)
    subjects: dict[str, Subject] = {"raw32": raw}
    for done, name in enumerate(names):
        report("preparing the methods", done, len(names))
        subjects |= method_steps(name, setting)
    took = interleaved(subjects, setting.rounds, report, what="steps")
    raw32 = took.pop("raw32")
    spread = np.std(raw32) / np.mean(raw32)
    note = f"raw32: {np.median(raw32):.3f} s ± {spread:.0%}"
    return [
        row("step", name, seconds / raw32, "× raw32", bound=BOUNDS.get(name), note=note)
        for name, seconds in took.items()
    ]


def method_steps(name: str, setting: Setting) -> dict[str, Subject]:
    """A step of this method in its fourth task, its memory filled; GSS with its gate both ways."""
    method = make(name)
    if not isinstance(method.memory, GradientGreedy):
        return {name: method_step(method, setting)}
    gates = {"closed": -math.inf, "open": math.inf}
    return {
        f"{name}, gate {word}": method_step(
            replace(method, memory=replace(method.memory, gate=gate)), setting
        )
        for word, gate in gates.items()
    }


def method_step(method: Method, setting: Setting) -> Subject:
    learner, x, y = prepared(method, setting)
    return lambda: learner.observe(x, y, ids=torch.arange(BATCH), horizon=FAR)


def prepared(method: Method, setting: Setting) -> tuple[Learner, Tensor, Tensor]:
    """A learner that has seen three tasks of random images, and a batch of the fourth."""
    torch.manual_seed(0)
    learner = Learner(
        ResNet(CLASSES, width=setting.width).to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        method,
        memory=MEMORY,
        lr=0.001,
        view=VIEW,
        tasks=MEMORY // 100,
        epochs=1,
        batch=BATCH,
    )
    x = images(200, setting.side)
    for task in range(PAST + 1):
        classes = torch.tensor([2 * task, 2 * task + 1])
        y = classes[torch.arange(200) % 2]
        learner.begin(classes.tolist(), x, y)
        if task == PAST:
            break
        if method.memory is not None and method.memory.fills == "step":
            fill(learner, x, y)
        learner.end(x, y)
    return learner, x[:BATCH], y[:BATCH]


def fill(learner: Learner, x: Tensor, y: Tensor) -> None:
    """Put a task's images into memory without training on them."""
    memory = stored(learner.state)
    keep = min(len(y), memory.capacity - memory.filled)
    logits = torch.zeros(keep, CLASSES)
    memory.append(Batch(x[:keep], y[:keep], logits), task=learner.state.lesson.t)
    memory.offered = memory.filled
    memory.scores[: memory.filled] = 0.5
