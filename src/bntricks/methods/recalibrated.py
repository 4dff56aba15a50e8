"""A control the paper leaves open: how much of BN Tricks is φ alone? ER, trained as ever, whose φ
is set to the memory's own moments when a task is over. The memory is near balanced, and θ is not
touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from bntricks.batch import Batch
from bntricks.methods import method
from bntricks.norm import recalibrate
from bntricks.recipes.language import BM, Bt, Method, Source
from bntricks.recipes.losses import ce
from bntricks.recipes.policies import Reservoir, stored
from bntricks.training.state import State


@method("er-recalibrate", title="ER + recalibration")
def er_recalibrate() -> Method:
    """Control: ER, and after each task φ is estimated anew on the memory."""
    return Method(updates=[ce(Bt | BM)], memory=Reservoir(), stages=[RecalibrateOnMemory()])


@dataclass(frozen=True, slots=True)
class RecalibrateOnMemory:
    """A stage that sets φ to the moments of all that is stored."""

    sets_ema: ClassVar[Source] = BM

    def __call__(self, state: State, samples: Batch | None) -> None:
        memory = stored(state)
        if memory.x is not None and memory.filled > 1:
            mixed = torch.randperm(memory.filled, generator=memory.sampling)
            parts = torch.tensor_split(mixed.to(memory.x.device), -(-memory.filled // 256))
            recalibrate(state.net, (state.view(memory.x[part], None) for part in parts))

    def __str__(self) -> str:
        return "recalibrate on memory"
