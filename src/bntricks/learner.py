"""The object to hold: a network, its optimiser, a method, and a memory.

`observe` takes raw samples. How they are augmented and normalised is the learner's `view`
(identity by default), so the memory keeps raw ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from bntricks.batch import BalanceRule, Batch
from bntricks.memory import Memory
from bntricks.norm import mode
from bntricks.recipe import Lesson, Method
from bntricks.seeds import Generators
from bntricks.step import Cost, State, View, step


def plain(x: Tensor, generator: Generator | None = None) -> Tensor:
    """The view of samples that are network inputs already."""
    return x


class Learner:
    """Learns task after task: `begin`, `observe` every batch, `end`; `predict` at any time.

    >>> learner = Learner(net, er_bnt(), memory=200)
    >>> learner.begin(classes=[0, 1])
    >>> for x, y in loader: learner.observe(x, y)
    >>> learner.end()
    """

    def __init__(
        self,
        net: nn.Module,
        method: Method,
        *,
        memory: int = 500,
        memory_batch: int = 32,
        lr: float = 0.03,
        seed: int | Generators = 0,
        view: View = plain,
        rule: BalanceRule = "count",
        device: str = "cpu",
        precision: Literal["float32", "bf16"] = "float32",
    ) -> None:
        generators = seed if isinstance(seed, Generators) else Generators.of(seed)
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
        self.device = torch.device(device)
        self.state = State(
            net=net.to(self.device),
            optimiser=optimiser,
            method=method,
            memory=store,
            view=view,
            stream_augmentation=generators.stream_augmentation,
            replay_augmentation=generators.replay_augmentation,
            memory_batch=memory_batch,
            rule=rule,
            precision=precision,
        )

    @property
    def net(self) -> nn.Module:
        return self.state.net

    @property
    def memory(self) -> Memory | None:
        return self.state.memory

    @property
    def cost(self) -> Cost:
        return self.state.cost

    def begin(self, classes: Sequence[int], *, size: int = 0) -> None:
        """A new task arrives with these classes and `size` training samples."""
        before = self.state.lesson
        known = sorted(set(before.seen) & set(classes))
        if known:
            raise ValueError(f"classes {known} were learned in an earlier task")
        self.state.lesson = Lesson(before.t + 1, tuple(classes), before.seen, size)
        self.net.train()

    def observe(
        self, x: Tensor, y: Tensor, *, ids: Tensor | None = None, horizon: int | None = None
    ) -> Tensor:
        """Learn from one batch; returns its loss, on the device.

        `horizon` counts the steps, this one included, until someone predicts. If it is given,
        tracking passes that no prediction would feel are left out; never promise too much.
        """
        raw = Batch(x.to(self.device, non_blocking=True), y.cpu(), ids=ids)
        return step(self.state, raw, horizon=horizon)

    def end(self) -> None:
        """The task is over."""

    def scores(self, x: Tensor, *, batch: int = 256) -> Tensor:
        """A score for every class, [N, C], on the host. Moves no state."""
        if self.state.stale:
            raise RuntimeError(
                "the running statistics lack tracking passes that were left out: predict no "
                "earlier than `horizon` promised, or observe without a horizon"
            )
        with mode(self.net, training=False), torch.inference_mode():
            return torch.cat([self._forward(part) for part in torch.split(x, batch)])

    def _forward(self, x: Tensor) -> Tensor:
        x = self.state.view(x.to(self.device), None)
        with self.state.arithmetic(x):
            return self.net(x).float().cpu()  # type: ignore[no-any-return]

    def predict(self, x: Tensor) -> Tensor:
        """The class of each sample, [N]. Moves no state."""
        return self.scores(x).argmax(1)
