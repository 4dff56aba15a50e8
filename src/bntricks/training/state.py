"""The state of a training: the network, its optimiser, the memory, and the task at hand. It can be
saved between two steps, and restored to go on to the same bits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Generator, Tensor, nn
from torch.utils.hooks import RemovableHandle

from bntricks.batch import Batch
from bntricks.errors import UserError
from bntricks.memory import Memory
from bntricks.networks.folded import folded
from bntricks.networks.head import features, keep_outputs, last_linear, seen_by_head
from bntricks.networks.norms.variant import Rows, given_rows
from bntricks.norm import BatchNorms, ema_reach, mode
from bntricks.recipes.classifiers import LINEAR, Fitted
from bntricks.recipes.language import Method
from bntricks.recipes.lesson import Lesson
from bntricks.recipes.options import TrainingOptions
from bntricks.seeds import Generators
from bntricks.streams.files.progress import OnProgress, silent
from bntricks.system.devices import device_of, to_device
from bntricks.training.distributed import ALONE, Ranks
from bntricks.training.optimisers import Optimiser
from bntricks.training.randomness import NOTHING, Randomness
from bntricks.training.schedules import Schedule, constant

if TYPE_CHECKING:
    from bntricks.training.step import Draws

View = Callable[[Tensor, Generator | None], Tensor]
"""A function from raw samples to network inputs, augmented if there is a generator."""


@dataclass
class Cost:
    """The cost of all steps so far."""

    steps: int = 0
    forwards: int = 0
    images: int = 0
    tracking_forwards: int = 0
    tracking_skipped: int = 0


def no_samples() -> Tensor:
    """Return empty counts of samples by class; they grow with the labels."""
    return torch.zeros(0, dtype=torch.float64)


class Observer(Protocol):
    """Looks at a training without changing it."""

    def step(self, draws: Draws, horizon: int | None) -> None:
        """Look at the batches of a step before θ moves; `horizon` is that of `step`."""
        ...

    def task_end(self, samples: Batch | None) -> None:
        """Look at the end of a task, with its samples if they were given."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return its part of the learner's state, under names of its own."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


@dataclass
class State:
    """What a step reads and changes."""

    net: nn.Module
    optimiser: Optimiser
    method: Method
    memory: Memory | None
    view: View
    stream_augmentation: Generator
    replay_augmentation: Generator
    averaging: Generator = field(default_factory=Generator)
    options: TrainingOptions = field(default_factory=TrainingOptions)
    schedule: Schedule = constant
    """The course of the learning rate over a task."""
    tasks: int | None = None
    """The number of tasks, for methods that share out their memory in advance."""
    report: OnProgress = silent
    lesson: Lesson = field(default_factory=Lesson)
    teacher: nn.Module | None = None
    """The network before this task."""
    recorded: Tensor | None = None
    """Outputs recorded at the task's start, a row for each of its samples."""
    fitted: Fitted = field(default_factory=dict)
    """The fit of the recipe's classifier; empty until there is one."""
    averages: dict[str, nn.Module] = field(default_factory=dict)
    """The recipe's slow copies of the network, by name."""
    observers: list[Observer] = field(default_factory=list)
    trained_on: Tensor = field(default_factory=no_samples)
    """The number of samples of each class that have moved θ in this task, replayed ones included.
    Copies that together weigh as much as one sample count as one."""
    cost: Cost = field(default_factory=Cost)
    ranks: Ranks = ALONE
    """The processes that share a step."""
    since_skip: int | None = None
    """Tracked steps since one was left out; None if none was."""
    randomness: Randomness = field(default_factory=lambda: Randomness(Generator()))
    guards: list[RemovableHandle] = field(default_factory=list)
    """Hooks that refuse evaluation while φ lacks passes that were left out."""

    def passing(self, name: str) -> AbstractContextManager[None]:
        """Seed the draws of the pass of this name, if anything may draw."""
        return self.drawing(name) if self.randomness.in_passes else NOTHING

    def running(self, name: str) -> AbstractContextManager[None]:
        """Seed the draws of another part of a step, if anything may draw."""
        return self.drawing(name) if self.randomness.outside else NOTHING

    def drawing(self, part: str) -> AbstractContextManager[None]:
        """Seed the draws of this part of a step, or of a task's begin or end."""
        return self.randomness.of_step(part, self.device)

    @property
    def learning(self) -> tuple[nn.Module, ...]:
        """All networks that a step passes batches through in training mode."""
        return (self.net, *self.averages.values())

    def train_mode(self) -> None:
        """Put all networks that learn into training mode."""
        for net in self.learning:
            net.train()

    def count(self, batch: Batch) -> None:
        """Add the samples of a batch, of any class, to `trained_on`, by their weights."""
        weight = None if batch.weight is None else batch.weight.double()
        more = torch.bincount(batch.y, weight, minlength=len(self.trained_on))
        known = torch.nn.functional.pad(self.trained_on, (0, len(more) - len(self.trained_on)))
        self.trained_on = known + more

    @property
    def device(self) -> torch.device:
        """The network's device."""
        return device_of(self.net)

    def arithmetic(self, x: Tensor) -> AbstractContextManager[object]:
        """Set the precision of one forward pass; autocast keeps copies of the weights meanwhile."""
        lower = self.options.precision == "bf16"
        return torch.autocast(x.device.type, torch.bfloat16, enabled=lower)

    def forward(
        self, x: Tensor, stored: Tensor | None = None, norms: BatchNorms | None = None
    ) -> Tensor:
        """Compute and count h(x), in the mode and with the tracking the caller has set. `stored` is
        that of the batch; `norms` are the network's, if already looked up."""
        self.cost.forwards += 1
        self.cost.images += len(x)
        with self.arithmetic(x), given_rows(norms or self.net, Rows(self.lesson.t, stored)):
            return self.net(x).float()  # type: ignore[no-any-return]

    def forward_with_features(
        self, x: Tensor, stored: Tensor | None = None, norms: BatchNorms | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute h(x) and f(x) by one forward."""
        with seen_by_head(self.net) as seen:
            logits = self.forward(x, stored, norms)
        return logits, seen[-1].float()

    def embed(self, x: Tensor) -> Tensor:
        """Compute f(x) of inputs, in the mode the caller has set."""
        with self.arithmetic(x):
            return features(self.net, x).float()

    def features(self, x: Tensor, *, batch: int = 128) -> Tensor:
        """Compute f(x) of raw samples, in evaluation mode."""
        return self._read(x, State.embed, batch)

    def outputs(self, x: Tensor, *, batch: int = 128) -> Tensor:
        """Compute h(x) of raw samples, in evaluation mode."""
        return self._read(x, LINEAR.scores, batch).float()

    @torch.no_grad()
    def _read(self, x: Tensor, read: Callable[[State, Tensor], Tensor], batch: int) -> Tensor:
        with mode(self.net, training=False):
            reader = self.reader(len(x))
            parts = (self.view(to_device(p, self.device), None) for p in torch.split(x, batch))
            return torch.cat([read(reader, part) for part in parts])

    def reader(self, images: int) -> State:
        """Return this state with the fastest network to score `images`, until θ or φ change."""
        if self.options.precision == "bf16":
            return self
        return replace(self, net=folded(self.net, images))

    @property
    def stale(self) -> bool:
        """Whether φ lacks passes that were left out, so that it must not be read yet."""
        if self.since_skip is None:
            return False
        reach = ema_reach(self.net)
        return reach is None or self.since_skip < reach

    def guard(self, norms: BatchNorms, *, stale: bool) -> None:
        """Refuse to evaluate the layers that training moves for as long as φ is stale."""
        if stale and not self.guards:
            refuse = partial(_refuse_stale, self)
            own = [layer for layer in norms if layer.training]
            self.guards += [layer.register_forward_pre_hook(refuse) for layer in own]
        elif not stale:
            while self.guards:
                self.guards.pop().remove()


def _refuse_stale(state: State, layer: nn.Module, inputs: object) -> None:
    if not layer.training and state.stale:
        raise UserError(
            "a normalisation layer is evaluated while its running statistics lack tracking passes "
            "that were left out: if the method evaluates the network inside a task, declare "
            "Method(reads_ema=True); in a loop of your own, observe without a horizon"
        )


def previous(net: nn.Module) -> nn.Module:
    """Copy the network, for evaluation only."""
    return copy.deepcopy(net).eval().requires_grad_(False)


def snapshot(state: State, generators: Generators) -> dict[str, Any]:
    """Return a state as nested tensors and plain values. The tensors are not copied."""
    lasting = state.method.classify.fits == "task end"
    observed = {k: v for each in state.observers for k, v in each.state_dict().items()}
    return observed | {
        "net": state.net.state_dict(),
        "optimiser": state.optimiser.state_dict(),
        "memory": None if state.memory is None else state.memory.state_dict(),
        "generators": generators.state_dict(),
        "lesson": asdict(state.lesson),
        "teacher": None if state.teacher is None else state.teacher.state_dict(),
        "recorded": state.recorded,
        "fitted": state.fitted if lasting else {},
        "averages": {name: net.state_dict() for name, net in state.averages.items()},
        "trained_on": state.trained_on,
        "cost": asdict(state.cost),
        "since_skip": state.since_skip,
        "randomness": state.randomness.state_dict(),
    }


def restore(state: State, generators: Generators, values: dict[str, Any]) -> None:
    """Restore a snapshot in a state that was made with the same arguments."""
    state.net.load_state_dict(values["net"])
    state.optimiser.load_state_dict(values.get("optimiser", {}))
    if state.memory is not None:
        state.memory.load_state_dict(values["memory"])
    generators.load_state_dict(values["generators"])
    lesson = values["lesson"]
    new, old = tuple(lesson["new"]), tuple(lesson["old"])
    visitors = tuple(lesson.get("visitors", ()))  # older states have none
    state.lesson = Lesson(lesson["t"], new, old, lesson["size"], visitors)
    state.teacher = None
    if values["teacher"] is not None:
        state.teacher = _taught(state.net, values["teacher"])
    device = state.device
    recorded: Tensor | None = values["recorded"]
    state.recorded = None if recorded is None else recorded.to(device)
    state.fitted = {name: t.to(device) for name, t in values.get("fitted", {}).items()}
    for observer in state.observers:
        observer.load_state_dict(values)
    for name, net in state.averages.items():
        net.load_state_dict(values["averages"][name])
    counts: Tensor | None = values.get("trained_on")
    state.trained_on = no_samples() if counts is None else counts.double()  # int64 in older ones
    state.cost, state.since_skip = Cost(**values["cost"]), values["since_skip"]
    if "randomness" in values:  # since 0.3
        state.randomness.load_state_dict(values["randomness"])
    state.train_mode()


def _taught(net: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    """Make a teacher with these weights; its head may have fewer outputs than the network's."""
    teacher = previous(net)
    linear = last_linear(teacher)
    head = next(name for name, module in teacher.named_modules() if module is linear)
    keep_outputs(teacher, range(len(weights[f"{head}.weight"])))
    teacher.load_state_dict(weights)
    return teacher
