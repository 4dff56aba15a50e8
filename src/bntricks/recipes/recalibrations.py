"""Ways to set φ when a task has been learned, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from bntricks.norm import recalibrate
from bntricks.plugins.registry import Registry
from bntricks.recipes.language import BM, Source, Stage
from bntricks.recipes.policies import stored

if TYPE_CHECKING:
    from bntricks.batch import Batch
    from bntricks.training.state import State

RECALIBRATIONS: Registry[Stage] = Registry("way to recalibrate")
"""Stages that set φ when a task is over. `sets_ema` names the batch whose statistics φ then has."""


@RECALIBRATIONS.named("off")
def leave(state: State, samples: Batch | None) -> None:
    """Leave φ as training has moved it."""


@dataclass(frozen=True, slots=True)
class RecalibrateOnMemory:
    """A stage that sets φ to the moments of the whole memory, which is near balanced; θ stays."""

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
