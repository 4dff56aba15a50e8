"""What is kept in memory, and when: after every step, or when a task ends.

A policy is a value in a recipe. Its `update` is called with the batch of the step (raw samples, and
their logits), or with all raw samples of the finished task. Those stay on the host if the device
has no room for them; `state.features` and `devices.take` bring over a part.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
import torch
from torch import Generator, Tensor

from bntricks.batch import Batch, shuffled
from bntricks.norm import frozen_ema
from bntricks.recipes.as_published import fill_empty_slots, overruns
from bntricks.system.devices import take, to_device

if TYPE_CHECKING:
    from bntricks.memory import Memory
    from bntricks.training.state import State


class Policy(Protocol):
    """What is kept, and when. Your own inherits from this class and overrides what differs."""

    fills: ClassVar[Literal["step", "task end"]] = "step"
    one_each: ClassVar[Literal["class", "task"] | None] = None
    """What the memory must hold at least one sample of."""
    needs_task_count: ClassVar[bool] = False
    """Whether it shares out the memory among all tasks in advance."""
    moves_ema: ClassVar[bool] = False
    """Whether it passes batches through the network in training mode, which move φ unless the
    recipe names the batch that does."""
    looks_inside: ClassVar[bool] = False
    """Whether it reads gradients inside the layers, which compiled passes do not show."""
    each_class_once: ClassVar[bool] = False
    """Whether it keeps samples of a class when its task ends, and never again."""
    counts_classes: ClassVar[bool] = False
    """Whether it heeds `memory_per_class`."""
    splits: ClassVar[bool] = False
    """Whether it decides by samples and generators alone, so that all ranks decide alike."""

    def new_share(self, t: int) -> float | None:
        """Return the newest task's share of the memory as task t ends; None if unknown."""
        return 0.0 if self.fills == "task end" else None

    def update(self, state: State, samples: Batch) -> None:
        """Keep some of these samples."""

    def adopt(self, state: State, samples: Batch) -> None:
        """Fill the memory of a network that was trained elsewhere with samples of its classes, by
        default with the same number of each."""
        keep_evenly(state, samples)


@dataclass(frozen=True, slots=True)
class Reservoir(Policy):
    """Reservoir sampling over every sample of every epoch, perhaps for each class by itself."""

    splits = True
    counts_classes = True
    keep: Literal["samples", "logits"] = "samples"

    def new_share(self, t: int) -> float | None:
        return 1 / t

    def adopt(self, state: State, samples: Batch) -> None:
        keep_evenly(state, samples, logits=self.keep == "logits")

    def update(self, state: State, samples: Batch) -> None:
        if self.keep == "samples":
            samples = replace(samples, logits=None)
        elif samples.logits is None:
            raise ValueError("this memory keeps logits: the recipe needs a loss on Bt alone")
        if (count := state.options.memory_per_class) is not None:
            stored(state).add_by_class(samples, count, task=state.lesson.t)
        else:
            stored(state).add(samples, task=state.lesson.t)

    def __str__(self) -> str:
        return "reservoir" + (" with logits" if self.keep == "logits" else "")


@dataclass(frozen=True, slots=True)
class Even(Policy):
    """The same number of samples of every class, as far as there are. They are drawn when a task
    ends, so no sample is in the memory twice."""

    fills = "task end"
    counts_classes = True

    def update(self, state: State, samples: Batch) -> None:
        memory = stored(state)
        known = memory.filled
        chosen = evenly(
            torch.cat([memory.y[:known], samples.y]),
            memory.capacity,
            memory.insertion,
            state.options.memory_per_class,
        )
        memory.keep(chosen[chosen < known].sort().values.numpy())
        memory.append(rows(samples, chosen[chosen >= known] - known), task=state.lesson.t)

    def __str__(self) -> str:
        return "even classes, at task end"


@dataclass(frozen=True, slots=True)
class Herding(Policy):
    """iCaRL's exemplars: of each class, the samples whose mean is nearest to the class mean, in
    order, so that the first m are the best m. Equal shares for all classes seen, floored."""

    fills = "task end"
    one_each = "class"
    each_class_once = True
    counts_classes = True

    def adopt(self, state: State, samples: Batch) -> None:
        self.update(state, samples)

    def update(self, state: State, samples: Batch) -> None:
        memory, lesson = stored(state), state.lesson
        equal = equal_share(memory, len(lesson.seen), "classes")
        share = state.options.memory_per_class or equal
        if missing := sorted({*lesson.new} - {*samples.y.tolist()}):
            raise ValueError(
                f"class {missing[0]} has no samples to keep: give end(x, y) some of every new class"
            )
        fill_empty_slots(state)
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
class PerTask(Policy):
    """GEM and A-GEM: an equal share for each task of the stream, drawn when the task ends."""

    fills = "task end"
    one_each = "task"
    needs_task_count = True

    def adopt(self, state: State, samples: Batch) -> None:
        self.update(state, samples)

    def update(self, state: State, samples: Batch) -> None:
        memory = stored(state)
        assert state.tasks is not None  # see `check_memory`
        share = equal_share(memory, state.tasks, "tasks")
        order = torch.randperm(len(samples), generator=memory.insertion)
        memory.append(rows(samples, order[:share]), task=state.lesson.t)

    def __str__(self) -> str:
        return "random per task, at task end"


@dataclass(frozen=True, slots=True)
class StoredOutputs(Policy):
    """FDR: samples with the outputs of the network that has just learned them, in equal shares for
    all tasks seen. The pass that makes the outputs ends with the batch that fills the share."""

    fills = "task end"
    one_each = "task"
    moves_ema = True

    def adopt(self, state: State, samples: Batch) -> None:
        keep_evenly(state, samples, logits=True)

    def update(self, state: State, samples: Batch) -> None:
        memory, t = stored(state), state.lesson.t
        share = equal_share(memory, t, "tasks")
        fill_empty_slots(state)
        keep = [memory.of_task(task)[:share] for task in range(1, t)]
        memory.keep(np.concatenate([np.empty(0, np.int64), *keep]))
        # Whole batches pass through the network, as in training; the last is stored in part.
        for number, part in enumerate(
            shuffled(len(samples), state.options.batch, memory.insertion)
        ):
            room = max(0, share - len(memory.of_task(t)))
            if not room and not overruns(state, number, share):
                break
            chosen = rows(samples, part)
            view = state.view(to_device(chosen.x, state.device), state.replay_augmentation)
            conventional = state.method.ema is None
            with torch.no_grad(), nullcontext() if conventional else frozen_ema(state.net):
                logits = state.forward(view)
            memory.append(replace(chosen, logits=logits).rows(slice(room)), task=t)

    def __str__(self) -> str:
        return "random per task with logits, at task end"


def herd(features: Tensor, count: int) -> Tensor:
    """Pick rows greedily so that the mean of the first k is near the mean of all (iCaRL)."""
    features = features.cpu().double()  # many small steps: a GPU would only wait
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
    return torch.stack(chosen)


def keep_evenly(state: State, samples: Batch, *, logits: bool = False) -> None:
    """Fill the memory with the same number of each class, with their `logits` if requested."""
    memory = stored(state)
    most = state.options.memory_per_class
    chosen = rows(samples, evenly(samples.y, memory.capacity, memory.insertion, most))
    if logits:
        chosen = replace(chosen, logits=state.outputs(chosen.x, batch=256))
    memory.append(chosen, task=state.lesson.t)
    memory.offered = memory.filled


def evenly(y: Tensor, count: int, generator: Generator, most: int | None = None) -> Tensor:
    """Draw rows, the same number of each class as far as there are, and at most so many, in random
    order."""
    order = torch.randperm(len(y), generator=generator)
    rank = torch.empty(len(y), dtype=torch.int64)  # of a row within its class
    for label in set(y.tolist()):
        own = order[y[order] == label]
        rank[own] = torch.arange(len(own))
    first = order[rank[order].argsort(stable=True)][:count]
    first = first if most is None else first[rank[first] < most]
    return first[torch.randperm(len(first), generator=generator)]


def rows(batch: Batch, index: Tensor) -> Batch:
    """Select raw samples; without ids, they get their positions as ids."""
    ids = batch.ids[index] if batch.ids is not None else index
    return Batch(take(batch.x, index, batch.x.device), batch.y[index], ids=ids)


def equal_share(memory: Memory, parties: int, what: str) -> int:
    """Divide the memory among classes or tasks, floored."""
    if memory.capacity < parties:
        raise ValueError(
            f"a memory of {memory.capacity} cannot keep a sample of each of {parties} {what}"
        )
    return memory.capacity // parties


def stored(state: State) -> Memory:
    assert state.memory is not None
    return state.memory
