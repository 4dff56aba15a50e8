"""The object to hold: a network, its optimiser, a method, and a memory.

`observe` takes raw samples. How they are augmented and normalised is the learner's `view`
(identity by default), so the memory keeps raw ones.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from bntricks.batch import Batch
from bntricks.memory import Memory
from bntricks.nets import classifier
from bntricks.norm import mode
from bntricks.recipe import Lesson, Method
from bntricks.seeds import Generators
from bntricks.step import Cost, State, View, step


def plain(x: Tensor, generator: Generator | None = None) -> Tensor:
    """The view of samples that are network inputs already."""
    return x


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
        generators = seed if isinstance(seed, Generators) else Generators.of(seed)
        self.device = torch.device(device)
        net = net.to(self.device)
        # SGD's weight decay w adds w·θ to the gradient, which is that of (w/2)‖θ‖².
        optimiser = torch.optim.SGD(net.parameters(), lr=lr, weight_decay=2 * method.decay)
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
            optimiser=optimiser,
            method=method,
            memory=store,
            view=view,
            stream_augmentation=generators.stream_augmentation,
            replay_augmentation=generators.replay_augmentation,
            **protocol,
        )
        self._means: tuple[Tensor, Tensor] | None = None

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
        self._means = None
        raw = Batch(x.to(self.device, non_blocking=True), y.cpu(), ids=ids)
        return step(self.state, raw, horizon=horizon)

    def end(self, x: Tensor | None = None, y: Tensor | None = None) -> None:
        """The task is over; these were its samples."""
        self._means = None
        policy = self.method.memory
        if self.method.finish is not None:
            self.method.finish(self.state)
        if self.method.teacher == "previous":
            self.state.teacher = copy.deepcopy(self.net).eval().requires_grad_(False)
        if policy is not None and policy.fills == "task end":
            policy.update(self.state, self._whole(x, y, "end"))
        self.state.recorded = None

    def scores(self, x: Tensor, *, batch: int = 256) -> Tensor:
        """A score for every class, [N, C], on the host. Moves no state."""
        if self.state.stale:
            raise RuntimeError(
                "the running statistics lack tracking passes that were left out: predict no "
                "earlier than `horizon` promised, or observe without a horizon"
            )
        score = self._nearness if self.method.classify == "nearest class mean" else self._logits
        with mode(self.net, training=False), torch.inference_mode():
            inputs = (self.state.view(p.to(self.device), None) for p in torch.split(x, batch))
            return torch.cat([score(part).float().cpu() for part in inputs])

    def predict(self, x: Tensor) -> Tensor:
        """The class of each sample, [N]. Moves no state."""
        return self.scores(x).argmax(1)

    def _logits(self, x: Tensor) -> Tensor:
        with self.state.arithmetic(x):
            return self.net(x)  # type: ignore[no-any-return]

    def _nearness(self, x: Tensor) -> Tensor:
        """Minus the squared distance to each class mean; classes without one score -inf."""
        classes, means = self._class_means()
        distances = torch.cdist(self.state.embed(x), means) ** 2
        scores = distances.new_full((len(x), classifier(self.net).out_features), -torch.inf)
        return scores.index_copy_(1, classes, -distances)

    def _class_means(self) -> tuple[Tensor, Tensor]:
        """Classes that have exemplars, and the mean feature of each; made anew only after the
        network or the memory has changed."""
        if self._means is None:
            memory = self.memory
            if not memory or memory.x is None:
                raise RuntimeError("no exemplars are stored yet: finish a task before predicting")
            features = self.state.features(memory.x[: memory.filled])
            classes, member = torch.unique(memory.y[: memory.filled], return_inverse=True)
            classes, member = classes.to(self.device), member.to(self.device)
            sums = features.new_zeros(len(classes), features.shape[1])
            sums.index_add_(0, member, features)
            self._means = classes, sums / member.bincount()[:, None]
        return self._means

    def _whole(self, x: Tensor | None, y: Tensor | None, when: str) -> Batch:
        if x is None or y is None:
            raise ValueError(f"this method needs the task's samples: {when}(..., x, y)")
        return Batch(x.to(self.device), y.cpu(), ids=torch.arange(len(y)))
