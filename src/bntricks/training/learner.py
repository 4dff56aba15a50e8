"""A network that learns by a method, with its optimiser and its memory.

`observe` takes raw samples, and the memory keeps raw ones; the learner's `view` (identity by
default) augments and normalises them. A learner knows numbers, not names or files: see `Model`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any
from warnings import warn

import torch
from torch import Generator, Tensor, nn

from bntricks.batch import Batch, check_finite, class_numbers
from bntricks.errors import did_you_mean
from bntricks.memory import Memory
from bntricks.networks.head import check_outputs, grow, last_linear
from bntricks.norm import mode
from bntricks.recipes.averages import slow_copy
from bntricks.recipes.language import Method
from bntricks.recipes.lesson import check_announced, next_lesson, unannounced_lesson
from bntricks.recipes.options import TrainingOptions
from bntricks.recipes.protocols import (
    check_memory,
    check_task_count,
    check_task_free,
    splits_classes,
)
from bntricks.seeds import Generators
from bntricks.system.devices import device_of, near, place, to_device
from bntricks.training.optimisers import check_rate, find_optimiser
from bntricks.training.randomness import Randomness
from bntricks.training.schedules import SCHEDULES, Schedule
from bntricks.training.state import Cost, State, View, no_samples, previous, restore, snapshot
from bntricks.training.step import step

CAPACITY = 500
"""Samples in the memory by default."""


def identity(x: Tensor, generator: Generator | None = None) -> Tensor:
    """View samples that are already network inputs."""
    return x


class Learner:
    """Learns task after task: `begin`, `observe` every batch, `end`; `predict` at any time.

    >>> learner = Learner(net, make("er-bnt"), memory=200)
    >>> learner.begin([0, 1])
    >>> for x, y in loader: learner.observe(x, y)
    >>> learner.end()

    Give the task's samples to `begin` and `end` for methods that need all of them (LwF, iCaRL, GEM,
    A-GEM, FDR). An epoch of iCaRL runs over `mix_in_memory(x, y)`. LwF needs the positions of a
    batch's samples in the task: `observe(x, y, ids=...)`. Methods that share out their memory in
    advance need the number of `tasks`. The learner computes on `device`, or else where the network
    is.

    Further keywords are those of `TrainingOptions`, which can also be given whole as `options`. By
    default a memory holds 500 samples, and methods that prepare for a task do so in one epoch. A
    `schedule` may be a function of your own.

    With `task_free`, just `observe` every batch, whatever its classes. Those of the batch are then
    the new classes of the step, and all others observed before are old. Methods that need tasks are
    refused.
    """

    def __init__(
        self,
        net: nn.Module,
        method: Method,
        options: TrainingOptions | None = None,
        *,
        seed: int | Generators = 0,
        view: View = identity,
        device: str | None = None,
        tasks: int | None = None,
        task_free: bool = False,
        schedule: str | Schedule | None = None,
        **names: Any,
    ) -> None:
        if task_free:
            check_task_free(method)
        self.task_free = task_free
        self.generators = generators = seed if isinstance(seed, Generators) else Generators.of(seed)
        self.device = device_of(net) if device is None else torch.device(device)
        if "rule" in names:  # until 0.4
            warn("Learner(rule=…) is now called balance", FutureWarning, stacklevel=2)
            names["balance"] = names.pop("rule")
        if isinstance(schedule, str):
            names["schedule"], schedule = schedule, None
        for name in names.keys() - TrainingOptions.model_fields.keys():
            near = did_you_mean(name, TrainingOptions.model_fields)
            raise TypeError(f"a learner has no option {name!r}{near}")
        if options is None:
            options = TrainingOptions.of(**{"epochs": 1, **names})
        elif names:
            raise TypeError(f"give {', '.join(names)} as a part of the options")
        check_rate(options.lr)
        self._make_optimiser = find_optimiser(options.optimiser, options.sgd_momentum)
        # The method's δ‖θ‖² has the gradient 2δ·θ.
        self._decay = options.weight_decay + 2 * method.decay
        net = place(net, self.device)
        capacity, store = options.memory or CAPACITY, None
        if options.memory is None and options.memory_per_class is not None:
            capacity = options.memory_per_class * last_linear(net).out_features
        if method.memory is not None:
            store = Memory(
                capacity,
                insertion=generators.memory_insertion,
                sampling=generators.memory_sampling,
                device=self.device,
            )
        self.state = State(
            net=net,
            optimiser=self._make_optimiser(net.parameters(), options.lr, self._decay),
            method=method,
            memory=store,
            view=view,
            stream_augmentation=generators.stream_augmentation,
            replay_augmentation=generators.replay_augmentation,
            averaging=generators.averaging,
            randomness=Randomness(generators.init),
            averages={average.name: slow_copy(net) for average in method.averages},
            options=options,
            schedule=schedule or SCHEDULES.find(options.schedule),
            tasks=tasks,
        )
        check_memory(method, capacity=capacity, memory_batch=options.memory_batch, tasks=tasks)

    @property
    def view(self) -> View:
        return self.state.view

    @property
    def net(self) -> nn.Module:
        return self.state.net

    @property
    def method(self) -> Method:
        return self.state.method

    @property
    def memory(self) -> Memory | None:
        return self.state.memory

    @property
    def cost(self) -> Cost:
        return self.state.cost

    def begin(
        self,
        classes: Sequence[int],
        x: Tensor | None = None,
        y: Tensor | None = None,
        *,
        visitors: Sequence[int] = (),
    ) -> None:
        """Begin a task with these classes and samples. Classes may come again, and `visitors` are
        classes of other tasks among the samples; methods that need each class to come in one task
        only refuse both."""
        if self.task_free:
            raise ValueError("a task-free learner has no tasks: observe its batches")
        before = self.state.lesson
        again = sorted({*before.seen} & {*classes} | {*visitors})
        if again and splits_classes(self.method):
            raise ValueError(
                f"classes {again} come in more than one task, and this method needs each in one"
            )
        if y is None and self.method.weighs_by_size:
            raise ValueError("this method weighs losses by the task's size: begin(classes, x, y)")
        check_task_count(self.method, before.t + 1, self.state.tasks)
        check_outputs(self.net, {*classes, *visitors})
        lesson = next_lesson(before, classes, 0 if y is None else len(y), visitors)
        self.state.randomness.begin(self.generators.order, lesson.seen)
        if self.method.prepare is None:
            self.state.lesson = lesson
        else:
            samples = self._samples(x, y, "begin(classes, x, y)", lesson.new)
            self.state.lesson = lesson
            with self.state.drawing("begin"):
                self.method.prepare(self.state, samples)
        self.state.trained_on = no_samples()
        self.state.train_mode()

    def mix_in_memory(
        self, x: Tensor, y: Tensor, change: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return an epoch's samples: the task's, with the memory mixed in if the recipe says so.
        `change` is applied to images from the memory."""
        memory = self.memory
        if not self.method.mixes or not memory or memory.x is None:
            return x, y
        stored = memory.x[: len(memory)].cpu()
        stored = change(stored) if change else stored
        return torch.cat([x, stored]), torch.cat([y, memory.y[: len(memory)]])

    def observe(
        self, x: Tensor, y: Tensor, *, ids: Tensor | None = None, horizon: int | None = None
    ) -> Tensor:
        """Learn from one batch and return its loss, on the device.

        `ids` are the samples' positions in the task. `horizon` is the number of steps, this one
        included, until the next prediction: with it, tracking passes that make no difference to
        that prediction are left out.
        """
        if len(y) < 2:
            raise ValueError("a batch of one sample has no variance: join it to the batch before")
        if x.device.type == "cpu":  # elsewhere the step would wait; a NaN loss shows it later
            check_finite(x, "the batch")
        y = class_numbers(y)
        raw = Batch(to_device(x, self.device), y, ids=None if ids is None else ids.cpu())
        if self.task_free:
            lesson = unannounced_lesson(self.state.lesson, raw.y)
            if len(lesson.seen) > len(self.state.lesson.seen):
                check_outputs(self.net, lesson.new)
            self.state.lesson = lesson
            self.state.train_mode()
        check_announced(raw.y, self.state.lesson.announced)
        if not all(net.training for net in self.state.learning):  # somebody called eval()
            self.state.train_mode()
        self._forget_fit()
        return step(self.state, raw, horizon=horizon)

    def end(self, x: Tensor | None = None, y: Tensor | None = None) -> None:
        """End the task, which had these samples."""
        self._forget_fit()
        method, policy = self.method, self.method.memory
        remembers = policy is not None and policy.fills == "task end"
        fits = method.classify.fits == "task end"
        samples = None
        if remembers or (y is not None and (fits or method.stages or self.state.observers)):
            samples = self._samples(x, y, "end(x, y)", self.state.lesson.announced)
        for index, stage in enumerate(method.stages):
            with self.state.drawing(f"stage {index}"):
                stage(self.state, samples)
        if method.teacher == "previous":
            self.state.teacher = previous(self.net)
        if policy is not None and remembers and samples is not None:
            with self.state.drawing("end"):
                policy.update(self.state, samples)
        if fits:
            self._fit(samples)
        for index, observer in enumerate(self.state.observers):
            with self.state.drawing(f"observer {index}"):
                observer.task_end(samples)
        self.state.recorded = None

    def grow(self, outputs: int, *, lr: float | None = None) -> None:
        """Grow the head to `outputs`, and set the optimiser's learning rate."""
        rate = self.state.optimiser.lr if lr is None else lr
        check_rate(rate)
        for net in self.state.averages.values():  # to the same new rows as the network's
            grow(net, outputs, self.generators.init.clone_state())
        grow(self.net, outputs, self.generators.init)
        if (grown := getattr(self.method.classify, "grown", None)) is not None:
            self.state.fitted = grown(self.state.fitted, outputs)
        self.state.optimiser = self._make_optimiser(self.net.parameters(), rate, self._decay)

    def scores(self, x: Tensor, *, batch: int = 128) -> Tensor:
        """Score every class, [N, C], on the host. Changes nothing that learning depends on."""
        if self.state.stale:
            raise RuntimeError(
                "the running statistics lack tracking passes that were left out: predict no "
                "earlier than `horizon` promised, or observe without a horizon"
            )
        check_finite(x, "the batch")
        self.fit()
        classify, net = self.method.classify, self.predictor
        drawing = self.state.randomness.part("scores", self.device)
        with drawing, mode(net, training=False), torch.inference_mode():
            reader = replace(self.state, net=net).reader(len(x))
            inputs = (
                self.state.view(to_device(part, self.device), None)
                for part in torch.split(x, batch)
            )
            return torch.cat([classify.scores(reader, part).float().cpu() for part in inputs])

    def predict(self, x: Tensor) -> Tensor:
        """Predict the class of each sample, [N]. Changes nothing that learning depends on."""
        return self.scores(x).argmax(1)

    def fit(self) -> None:
        """Fit a lazy classifier unless its fit is current."""
        if not self.state.fitted and self.method.classify.fits == "when asked":
            self._fit(None)

    @property
    def predictor(self) -> nn.Module:
        """The network that predicts: the one that learns, or an average of it."""
        network = getattr(self.method.classify, "network", None)
        return self.net if network is None else network(self.state)

    def with_net(self, net: nn.Module) -> Learner:
        """Return this learner with another network, for prediction only."""
        other = copy.copy(self)
        averages = dict.fromkeys(self.state.averages, net)
        other.state = replace(self.state, net=net, averages=averages)
        other._forget_fit()
        return other

    def state_dict(self) -> dict[str, Any]:
        """Return all that training has changed, as nested tensors and plain values. The network's
        shape, the method and the protocol are not included."""
        return snapshot(self.state, self.generators)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of a learner that was made with the same arguments."""
        restore(self.state, self.generators, state)

    def _fit(self, samples: Batch | None) -> None:
        drawing = self.state.randomness.part("fit", self.device)
        with drawing, mode(self.net, training=False):
            self.state.fitted = self.method.classify.fit(self.state, samples)

    def _forget_fit(self) -> None:
        if self.method.classify.fits == "when asked":
            self.state.fitted = {}

    def _samples(
        self, x: Tensor | None, y: Tensor | None, call: str, classes: Collection[int]
    ) -> Batch:
        if x is None or y is None:
            raise ValueError(f"this method needs the task's samples: {call}")
        check_finite(x, "the task")
        y = class_numbers(y)
        check_announced(y, classes)
        return Batch(near(x, self.device), y, ids=torch.arange(len(y)))
