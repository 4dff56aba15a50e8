"""Slow copies of the network, whose parameters follow θ and whose φ follows replayed batches.

CLS-ER (Arani et al. 2022) has two, a plastic and a stable one. The target of each replayed sample
is set by the copy that gives its class the higher probability.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from bntricks.networks.norms.variant import Rows, given_rows
from bntricks.norm import phi, set_phi
from bntricks.recipes.classifiers import Fitted, Linear
from bntricks.recipes.language import BM, Source
from bntricks.system.devices import to_device

if TYPE_CHECKING:
    from bntricks.batch import Batch
    from bntricks.training.state import State


@dataclass(frozen=True, slots=True)
class Average:
    """A slow copy: with probability `rate` a step, θ' ← a·θ' + (1 - a)·θ, where
    a = min(1 - 1/(step + 1), keep)."""

    name: str
    rate: float
    keep: float


def slow_copy(net: nn.Module) -> nn.Module:
    """Copy the network, in training mode, for averaging; it is never trained."""
    return copy.deepcopy(net).train().requires_grad_(False)


@torch.no_grad()
def targets(state: State, batch: Batch) -> Tensor:
    """Return, for each sample, the outputs of the copy that gives its class the highest
    probability. The copies are in training mode, so this batch moves their φ."""
    rows, answers = Rows(state.lesson.t, batch.stored), []
    for net in state.averages.values():
        with given_rows(net, rows), state.arithmetic(batch.x):
            answers.append(net(batch.x).float())
    outputs = torch.stack(answers)  # [copies, B, C]
    y = to_device(batch.y, outputs.device)
    right = outputs.softmax(2).gather(2, y.expand(len(answers), -1)[:, :, None])
    best = right.argmax(0, keepdim=True).expand_as(outputs[:1])
    return outputs.gather(0, best)[0]


@torch.no_grad()
def follow(state: State) -> None:
    """Move the copies towards θ after a step, each with its own probability."""
    for average in state.method.averages:
        chance = torch.rand((), generator=state.averaging, dtype=torch.float64)
        if chance.numpy() < average.rate:
            keep = min(1 - 1 / (state.cost.steps + 1), average.keep)
            own: list[Tensor] = list(state.averages[average.name].parameters())
            torch._foreach_lerp_(own, [*state.net.parameters()], 1 - keep)


@dataclass(frozen=True, slots=True)
class OfAverage:
    """The last layer of a slow copy, with the copy's own φ or the network's."""

    name: str
    phi: Literal["own", "the network's"] = "own"
    fits: Literal["never"] = "never"

    @property
    def tracked(self) -> Source | None:
        """The batch that moves the φ used for prediction, if the recipe's passes do not."""
        return BM if self.phi == "own" else None

    def network(self, state: State) -> nn.Module:
        """Return the network that predicts."""
        net = state.averages[self.name]
        if self.phi == "own":
            return net
        net = copy.deepcopy(net)
        set_phi(net, phi(state.net))
        return net

    def fit(self, state: State, samples: Batch | None) -> Fitted:
        return {}

    def scores(self, state: State, x: Tensor) -> Tensor:
        return Linear().scores(state, x)

    def head(self, state: State) -> nn.Module | None:
        return None

    def __str__(self) -> str:
        return f"linear, of the {self.name} average" + " with the network's φ" * (self.phi != "own")
