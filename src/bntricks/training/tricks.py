"""BN Tricks as one object for a loop of your own: the recipe `er-bnt` (paper, Algorithm 1) with
your own network, loss and optimiser."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bntricks.batch import BalanceRule, Batch, balance, check_finite, class_numbers
from bntricks.memory import Memory
from bntricks.norm import check_layers, frozen_ema, update_ema
from bntricks.recipes.lesson import Lesson, check_announced, next_lesson, unannounced_lesson
from bntricks.seeds import Generators
from bntricks.system.devices import to_device
from bntricks.training.distributed import Team
from bntricks.training.learner import identity
from bntricks.training.state import View

LossFunction = Callable[[Any, Tensor], Tensor]
"""A function from what the network returns, such as logits [B, C], and labels [B] to a scalar."""


class BNTricks:
    """Replay with BN Tricks, in a loop of your own.

    >>> tricks = BNTricks(net, memory=200)
    >>> for x, y in loader:
    ...     loss = tricks.step(x, y, cross_entropy)
    ...     optimiser.zero_grad()
    ...     loss.backward()
    ...     optimiser.step()

    It keeps `memory` samples and replays batches of `batch`. `view` turns samples into inputs, with
    another crop each time; the memory keeps the samples as given, on `device` or else where the
    first batch is. Without `begin`, the classes of a batch are new and all others seen so far are
    old.

    With `DistributedDataParallel`, give the wrapped network: every rank keeps a memory of its own,
    and φ is moved by the balanced batches of all ranks together.
    """

    def __init__(
        self,
        net: nn.Module,
        memory: int = 200,
        *,
        batch: int = 32,
        view: View = identity,
        seed: int | Generators = 0,
        rule: BalanceRule = "count",
        device: str | torch.device | None = None,
    ) -> None:
        if batch < 2:
            raise ValueError(f"a batch of {batch} has no variance: replay at least 2 samples")
        self.net = net
        self._passed = _without_ddp(net)
        check_layers(self._passed)
        self.generators = seed if isinstance(seed, Generators) else Generators.of(seed)
        self.memory = Memory(
            memory,
            insertion=self.generators.memory_insertion,
            sampling=self.generators.memory_sampling,
            device=device or "cpu",
        )
        self._placed = device is not None
        self.batch, self.view, self.rule = batch, view, rule
        self.lesson = Lesson()
        self._begun = False

    def begin(self, classes: Sequence[int]) -> None:
        """Begin a task with these classes, as in the paper's protocol."""
        self.lesson, self._begun = next_lesson(self.lesson, classes), True

    def step(self, x: Tensor, y: Tensor, loss: LossFunction) -> Tensor:
        """Move φ by a balanced batch, and return the loss of this batch plus that of a replayed
        one. The memory then takes in this batch. Gradients accumulate as usual."""
        labels = class_numbers(y)
        if x.device.type == "cpu":  # elsewhere the step would wait
            check_finite(x, "the batch")
        if not self._placed:
            self.memory.to(x.device)
            self._placed = True
        if self._begun:
            check_announced(labels, self.lesson.announced)
        else:
            self.lesson = unannounced_lesson(self.lesson, labels)
        raw = Batch(x, labels)
        current = Batch(self.view(x, self.generators.stream_augmentation), labels)
        replay = self._replay(x.device)
        self._track(self._balanced(current, replay))
        losses = []
        with frozen_ema(self._passed):  # Algorithm 1, line 5
            for batch in (current, replay):
                if batch is not None and len(batch) > 1:  # one sample has no variance
                    here = to_device(batch.y, x.device)
                    losses.append(_scalar(loss(self.net(_of_any_size(batch.x)), here)))
        self.memory.add(raw, task=self.lesson.t)
        if not losses:
            return torch.zeros((), device=x.device, requires_grad=True)
        return torch.stack(losses).sum()

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the network: memory, generators, and the classes seen."""
        return {
            "memory": self.memory.state_dict(),
            "generators": self.generators.state_dict(),
            "new": list(self.lesson.new),
            "old": list(self.lesson.old),
            "task": self.lesson.t,
            "begun": self._begun,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned, to the same bits."""
        if missing := sorted(self.state_dict().keys() - state):
            raise ValueError(f"this state has no {missing[0]}: it is not one of BNTricks")
        self.memory.load_state_dict(state["memory"])
        self.generators.load_state_dict(state["generators"])
        self.lesson = Lesson(state["task"], tuple(state["new"]), tuple(state["old"]))
        self._begun = state["begun"]

    def _replay(self, device: torch.device) -> Batch | None:
        raw = self.memory.sample(self.batch)
        if raw is None:
            return None
        x = self.view(to_device(raw.x, device), self.generators.replay_augmentation)
        return Batch(x, raw.y)

    def _balanced(self, current: Batch, replay: Batch | None) -> Batch:
        return balance(current, replay, new=self.lesson.new, old=self.lesson.old, rule=self.rule)

    def _track(self, batch: Batch) -> None:
        """Move φ (Algorithm 1, line 4)."""
        if len(batch) < 2:
            return
        together: AbstractContextManager[None] = nullcontext()
        if dist.is_initialized() and dist.get_world_size() > 1:
            together = Team().tracking(self._passed, len(batch) * dist.get_world_size())
        with together:
            update_ema(self._passed, _of_any_size(batch.x))


def _without_ddp(net: nn.Module) -> nn.Module:
    """Return the network that every rank has a copy of."""
    outer = getattr(net, "_orig_mod", net)  # of what torch.compile returned
    return outer.module if isinstance(outer, DistributedDataParallel) else net


def _scalar(loss: Tensor) -> Tensor:
    if not isinstance(loss, Tensor) or loss.dim():
        given = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise ValueError(f"the loss must be a scalar tensor, such as a mean, not {given}")
    return loss


def _of_any_size(x: Tensor) -> Tensor:
    """Make torch.compile, if in use, compile for batches of any size at once: the size of balanced
    batches changes with nearly every step."""
    if dynamo := sys.modules.get("torch._dynamo"):
        dynamo.maybe_mark_dynamic(x, 0)
    return x
