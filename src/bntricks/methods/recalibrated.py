"""A control the paper leaves open: how much of BN Tricks is φ alone? ER, trained as ever, whose φ
is set to the memory's own moments when a task is over. The memory is near balanced, and θ is not
touched."""

from __future__ import annotations

import torch

from bntricks.batch import Batch
from bntricks.methods import method
from bntricks.norm import recalibrate
from bntricks.recipes.language import BM, Bt, Method
from bntricks.recipes.losses import ce
from bntricks.recipes.policies import Reservoir, stored
from bntricks.training.state import State


@method("er-recalibrate", title="ER + recalibration")
def er_recalibrate() -> Method:
    """Control: ER, and after each task φ is estimated anew on the memory."""
    return Method(updates=[ce(Bt | BM)], memory=Reservoir(), stages=[recalibrate_on_memory])


def recalibrate_on_memory(state: State, samples: Batch | None) -> None:
    memory = stored(state)
    if memory.x is not None and memory.filled > 1:
        mixed = torch.randperm(memory.filled, generator=memory.sampling)
        parts = torch.tensor_split(mixed.to(memory.x.device), -(-memory.filled // 256))
        recalibrate(state.net, (state.view(memory.x[part], None) for part in parts))
