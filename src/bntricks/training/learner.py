"""The object to hold: a network, its optimiser, a method, and a memory.

`observe` takes raw samples. How they are augmented and normalised is the learner's `view`
(identity by default), so the memory keeps raw ones.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor, nn

from bntricks.batch import Batch
from bntricks.memory import Memory
from bntricks.networks.head import class_means, nearness
from bntricks.networks.resnet import classifier
from bntricks.norm import mode
from bntricks.recipes.language import Lesson, Method
from bntricks.seeds import Generators
from bntricks.training.optimisers import Descent
from bntricks.training.snapshot import previous, restore, snapshot
from bntricks.training.step import Cost, State, View, step

if TYPE_CHECKING:
    from bntricks.model.learn import Learned
    from bntricks.model.metadata import About
    from bntricks.streams import Images


def plain(x: Tensor, generator: Generator | None = None) -> Tensor:
    """The view of samples that are network inputs already."""
    return x


def descent(net: nn.Module, method: Method, lr: float) -> Descent:
    """A decay w adds w·θ to the gradient, which is that of (w/2)‖θ‖²."""
    return Descent(net.parameters(), lr, decay=2 * method.decay)


class Learner:
    """Learns task after task: `begin`, `observe` every batch, `end`; `predict` at any time.

    >>> learner = Learner(net, make("er-bnt"), memory=200)
    >>> learner.begin([0, 1])
    >>> for x, y in loader: learner.observe(x, y)
    >>> learner.end()

    Methods that look at a whole task at its start or end (LwF, iCaRL, GEM, A-GEM, FDR) are given
    its samples in `begin` and `end`. Further keywords are those of `State`.
    """

    def __init__(
        self,
        net: nn.Module,
        method: Method,
        *,
        memory: int = 500,
        lr: float = 0.03,
        seed: int | Generators = 0,
        view: View = plain,
        device: str = "cpu",
        **protocol: Any,
    ) -> None:
        self.generators = generators = seed if isinstance(seed, Generators) else Generators.of(seed)
        self.device = torch.device(device)
        net = net.to(self.device)
        store = None
        if method.memory is not None:
            store = Memory(
                memory,
                insertion=generators.memory_insertion,
                sampling=generators.memory_sampling,
                device=device,
            )
        self.state = State(
            net=net,
            optimiser=descent(net, method, lr),
            method=method,
            memory=store,
            view=view,
            stream_augmentation=generators.stream_augmentation,
            replay_augmentation=generators.replay_augmentation,
            **protocol,
        )
        self.means: tuple[Tensor, Tensor] | None = None
        self.about: About | None = None
        self.tests: Images | None = None  # never trained on, to measure what is still known

    @classmethod
    def adopt(cls, net: nn.Module, *, classes: Sequence[str], **wishes: Any) -> Learner:
        """A learner that goes on with a copy of a trained network, whose outputs are `classes`:
        see `bntricks.model.adopt.adopt`.

        >>> learner = Learner.adopt(net, classes=["cat", "dog"], memory="photos/old", view=view)
        >>> learner.learn("photos/new", epochs=20)
        >>> learner.predict(["a.jpg"])
        """
        from bntricks.model.adopt import adopt

        return adopt(net, classes=classes, **wishes)

    @classmethod
    def load(cls, path: Path | str, **how: Any) -> Learner:
        """The learner in a file that `save` wrote: see `bntricks.model.file.load`. An adopted
        network's code is not in it: `Learner.load(path, net=the_function_that_builds_it)`."""
        from bntricks.model.file import load

        return load(Path(path), **how)

    def save(self, path: Path | str, *, memory: bool = True) -> None:
        """Write one safetensors file, whole or not at all. Without its memory it is smaller, holds
        no images and predicts the same, but cannot learn on."""
        from bntricks.model.file import save

        save(self, Path(path), memory=memory)

    def learn(self, images: Any, *, epochs: int | None = None, **how: Any) -> Learned:
        """Learn new classes, and say what that did to the old ones.

        `bntricks.model.learn.learn` says what images may be. Shows how far it is, unless given a
        `sink`."""
        from bntricks.model.learn import learn

        return learn(self, images, epochs=epochs, **how)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of its outputs, in order; none if it was made without names."""
        return () if self.about is None else self.about.classes

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Its classes by the task they came with, in the order they were learned."""
        return () if self.about is None else self.about.groups

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
        self, classes: Sequence[int], x: Tensor | None = None, y: Tensor | None = None
    ) -> None:
        """A new task arrives with these classes, and these samples."""
        before = self.state.lesson
        known = sorted(set(before.seen) & set(classes))
        if known:
            raise ValueError(f"classes {known} were learned in an earlier task")
        if y is None and self.method.weighs_by_size:
            raise ValueError("this method weighs losses by the task's size: begin(classes, x, y)")
        size = 0 if y is None else len(y)
        self.state.lesson = Lesson(before.t + 1, tuple(classes), before.seen, size)
        if self.method.prepare is not None:
            self.method.prepare(self.state, self._whole(x, y, "begin"))
        self.net.train()

    def mixed(
        self, x: Tensor, y: Tensor, back: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """What an epoch runs over: the task, with the memory mixed in where the recipe says so.

        `back` changes what comes back from the memory.
        """
        memory = self.memory
        if not self.method.mixes or not memory or memory.x is None:
            return x, y
        stored = memory.x[: len(memory)].cpu()
        stored = back(stored) if back else stored
        return torch.cat([x, stored]), torch.cat([y, memory.y[: len(memory)]])

    def observe(
        self, x: Tensor, y: Tensor, *, ids: Tensor | None = None, horizon: int | None = None
    ) -> Tensor:
        """Learn from one batch; returns its loss, on the device.

        `ids` say which of the task's samples these are. `horizon` counts the steps, this one
        included, until someone predicts. If it is given, tracking passes that no prediction would
        feel are left out; never promise too much.
        """
        if len(y) < 2:
            raise ValueError("a batch of one sample has no variance: join it to the batch before")
        self.means = None
        raw = Batch(x.to(self.device, non_blocking=True), y.cpu(), ids=ids)
        return step(self.state, raw, horizon=horizon)

    def end(self, x: Tensor | None = None, y: Tensor | None = None) -> None:
        """The task is over; these were its samples."""
        self.means = None
        policy = self.method.memory
        if self.method.finish is not None:
            self.method.finish(self.state)
        if self.method.teacher == "previous":
            self.state.teacher = previous(self.net)
        if policy is not None and policy.fills == "task end":
            policy.update(self.state, self._whole(x, y, "end"))
        self.state.recorded = None

    def scores(self, x: Tensor, *, batch: int = 128) -> Tensor:
        """A score for every class, [N, C], on the host. Moves no state."""
        if self.state.stale:
            raise RuntimeError(
                "the running statistics lack tracking passes that were left out: predict no "
                "earlier than `horizon` promised, or observe without a horizon"
            )
        with mode(self.net, training=False), torch.inference_mode():
            reader = self.state.reader(len(x))
            inputs = (self.state.view(p.to(self.device), None) for p in torch.split(x, batch))
            return torch.cat([self._scores(reader, part).float().cpu() for part in inputs])

    def predict(self, x: Any) -> Any:
        """The class of each sample: a list of names, or [N] outputs if it was made without names.
        Moves no state."""
        columns = self._named_scores(x).argmax(1)
        return [self.classes[column] for column in columns] if self.about else columns

    def predict_proba(self, x: Any) -> Tensor:
        """A probability for every class, [N, C], a column for each of `classes`. Moves no state."""
        return self._named_scores(x).softmax(1)

    def class_means(self) -> tuple[Tensor, Tensor]:
        """Classes that have exemplars, and the mean feature of each; made anew only after the
        network or the memory has changed."""
        if self.means is None:
            self.means = class_means(self.state)
        return self.means

    def with_net(self, net: nn.Module) -> Learner:
        """This learner with another network in its place, to predict and not to train with."""
        other = copy.copy(self)
        other.state, other.means = replace(self.state, net=net), None
        return other

    def state_dict(self) -> dict[str, Any]:
        """Everything it has become: tensors and plain values, nested. What it was made with (the
        network's shape, the method, the protocol) is not in it."""
        return snapshot(self.state, self.generators)

    def load_state_dict(self, found: dict[str, Any]) -> None:
        """Become what another learner was that was made alike."""
        self.means = None
        restore(self.state, self.generators, found)

    def _scores(self, reader: State, x: Tensor) -> Tensor:
        """Of a network's inputs, in the mode the caller has set."""
        if self.method.classify == "nearest class mean":
            classes, means = self.class_means()
            return nearness(reader.embed(x), classes, means, classifier(self.net).out_features)
        with reader.arithmetic(x):
            return reader.net(x)  # type: ignore[no-any-return]

    def _named_scores(self, x: Any) -> Tensor:
        """With class names, samples may also be arrays or paths of images, and are checked."""
        if self.about is None:
            return self.scores(x)
        from bntricks.model.create import checked_samples

        return self.scores(checked_samples(self, x))

    def _whole(self, x: Tensor | None, y: Tensor | None, when: str) -> Batch:
        if x is None or y is None:
            raise ValueError(f"this method needs the task's samples: {when}(..., x, y)")
        return Batch(x.to(self.device), y.cpu(), ids=torch.arange(len(y)))
