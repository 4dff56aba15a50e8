"""What is kept in memory, and when: after every step, or when a task ends.

A policy is a value in a recipe. `update` is called at its time: with the batch of the step (raw
samples, and the logits they got), or with all raw samples of the finished task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from bntricks.batch import Batch
from bntricks.norm import frozen_ema

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from bntricks.memory import Memory
    from bntricks.step import State


class Policy(Protocol):
    """What is kept, and when."""

    @property
    def fills(self) -> Literal["step", "task end"]: ...
    @property
    def one_each(self) -> Literal["class", "task"] | None:
        """The memory must hold at least one sample of each of these."""

    def update(self, state: State, samples: Batch) -> None: ...


@dataclass(frozen=True, slots=True)
class Reservoir:
    """Reservoir sampling over every sample of every epoch."""

    keep: Literal["samples", "logits"] = "samples"
    fills: Literal["step"] = "step"
    one_each: None = None

    def update(self, state: State, samples: Batch) -> None:
        if self.keep == "samples":
            samples = replace(samples, logits=None)
        elif samples.logits is None:
            raise ValueError("this memory keeps logits: the recipe needs a loss on Bt alone")
        stored(state).add(samples, task=state.lesson.t)

    def __str__(self) -> str:
        return "reservoir" + (" with logits" if self.keep == "logits" else "")


@dataclass(frozen=True, slots=True)
class Herding:
    """iCaRL's exemplars: per class, the samples whose mean follows the class mean best, in order,
    so that the first m of them are the best m. Equal shares for all classes seen, floored."""

    fills: Literal["task end"] = "task end"
    one_each: Literal["class"] = "class"

    def update(self, state: State, samples: Batch) -> None:
        memory, lesson = stored(state), state.lesson
        share = memory.capacity // len(lesson.seen)
        labels = memory.y[: memory.filled].numpy()
        keep = [np.flatnonzero(labels == label)[:share] for label in lesson.old]
        memory.keep(np.concatenate([np.empty(0, np.int64), *keep]))
        for done, label in enumerate(lesson.new):
            state.report("herding", done, len(lesson.new))
            own = rows(samples, torch.from_numpy(np.flatnonzero(samples.y.numpy() == label)))
            chosen = herd(state.features(own.x), share)
            memory.append(rows(own, chosen), task=lesson.t)
        state.report("herding", len(lesson.new), len(lesson.new))

    def __str__(self) -> str:
        return "herding at task end"


@dataclass(frozen=True, slots=True)
class PerTask:
    """GEM and A-GEM: an equal share for each task of the stream, drawn when the task ends."""

    fills: Literal["task end"] = "task end"
    one_each: Literal["task"] = "task"

    def update(self, state: State, samples: Batch) -> None:
        memory = stored(state)
        if state.tasks is None:
            raise ValueError("an equal share a task needs the number of tasks: Learner(tasks=...)")
        share = memory.capacity // state.tasks
        order = torch.randperm(len(samples), generator=memory.insertion)
        memory.append(rows(samples, order[:share]), task=state.lesson.t)

    def __str__(self) -> str:
        return "random per task, at task end"


@dataclass(frozen=True, slots=True)
class Outputs:
    """FDR: samples with the outputs of the network that has just learned them; equal shares for
    all tasks seen. The pass that makes the outputs is in training mode, and moves φ unless the
    recipe names the batch that does."""

    fills: Literal["task end"] = "task end"
    one_each: Literal["task"] = "task"

    def update(self, state: State, samples: Batch) -> None:
        memory, t = stored(state), state.lesson.t
        share = memory.capacity // t
        keep = [memory.of_task(task)[:share] for task in range(1, t)]
        memory.keep(np.concatenate([np.empty(0, np.int64), *keep]))
        order = torch.randperm(len(samples), generator=memory.insertion)[:share]
        parts = list(torch.split(order, state.batch))
        if len(parts) > 1 and len(parts[-1]) == 1:  # one sample has no variance
            parts[-2:] = [torch.cat(parts[-2:])]
        for part in parts:
            chosen = rows(samples, part)
            view = state.view(chosen.x, state.replay_augmentation)
            with torch.no_grad(), _unless_named(state):
                logits = state.forward(view)
            memory.append(replace(chosen, logits=logits), task=t)

    def __str__(self) -> str:
        return "random per task with logits, at task end"


def herd(features: Tensor, count: int) -> Tensor:
    """Greedily pick rows so that the mean of the first k is as near the mean of all as it gets."""
    features = features.double()
    mean, total = features.mean(0), torch.zeros_like(features[0])
    squares = (features**2).sum(1)
    chosen: list[Tensor] = []
    for k in range(min(count, len(features))):
        # argmin_i ‖mean − (total + f_i)/(k+1)‖ = argmin_i ‖f_i‖² − 2⟨f_i, (k+1)·mean − total⟩
        distance = squares - 2 * features @ ((k + 1) * mean - total)
        best = distance.argmin()
        chosen.append(best)
        total = total + features[best]
        squares = squares.index_fill(0, best, torch.inf)
    return torch.stack(chosen).cpu()


def rows(batch: Batch, index: Tensor) -> Batch:
    """These rows of raw samples."""
    ids = batch.ids[index] if batch.ids is not None else index
    return Batch(batch.x[index.to(batch.x.device)], batch.y[index], ids=ids)


def stored(state: State) -> Memory:
    assert state.memory is not None
    return state.memory


def _unless_named(state: State) -> AbstractContextManager[None]:
    from contextlib import nullcontext

    return nullcontext() if state.method.ema is None else frozen_ema(state.net)
