"""What is done to a network when a task has been learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from bntricks.networks.head import last_linear
from bntricks.norm import recalibrate
from bntricks.plugins.registry import Registry
from bntricks.recipes.language import BM, Source, Stage
from bntricks.recipes.policies import stored

if TYPE_CHECKING:
    from bntricks.batch import Batch
    from bntricks.training.state import State

RECALIBRATIONS: Registry[Stage] = Registry("way to recalibrate")
"""What sets φ when a task is over. A stage's `sets_ema` is the batch that φ then stands for."""


@RECALIBRATIONS.named("off")
def leave(state: State, samples: Batch | None) -> None:
    """Leave φ as training has moved it."""


@dataclass(frozen=True, slots=True)
class RecalibrateOnMemory:
    """Sets φ to the moments of all that is stored, which is near balanced; θ is not touched."""

    sets_ema: ClassVar[Source] = BM

    def __call__(self, state: State, samples: Batch | None) -> None:
        memory = stored(state)
        if memory.x is not None and memory.filled > 1:
            mixed = torch.randperm(memory.filled, generator=memory.sampling)
            parts = torch.tensor_split(mixed.to(memory.x.device), -(-memory.filled // 256))
            recalibrate(state.net, (state.view(memory.x[part], None) for part in parts))

    def __str__(self) -> str:
        return "recalibrate on memory"


RECALIBRATIONS.add("memory", RecalibrateOnMemory())


@dataclass(frozen=True, slots=True)
class AlignWeights:
    """WA (Zhao et al. 2020): the new classes' rows of the head, scaled so that on average they are
    as long as those of the old classes. The next task starts from there."""

    @torch.no_grad()
    def __call__(self, state: State, samples: Batch | None) -> None:
        weight = last_linear(state.net).weight
        weight[list(state.lesson.new)] *= alignment(state)

    def __str__(self) -> str:
        return "align the head's weights"


@torch.no_grad()
def alignment(state: State) -> float:
    """Mean length of the old classes' rows of the head over that of the new ones; 1 in task 1."""
    if not state.lesson.old:
        return 1.0
    length = torch.linalg.vector_norm(last_linear(state.net).weight, dim=1)
    old, new = length[list(state.lesson.old)].mean(), length[list(state.lesson.new)].mean()
    return float(old / new)
