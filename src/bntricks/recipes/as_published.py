"""Mistakes of the published code that move numbers, brought back by `as_published`.

By default images are normalised everywhere and replayed as they were stored, and empty slots of the
memory are ignored. The code base the paper built on (Mammoth at commit cb9a36d, 2021) departed from
that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bntricks.batch import Batch
from bntricks.system.devices import image_layout

if TYPE_CHECKING:
    from bntricks.memory import Memory
    from bntricks.recipes.language import Method
    from bntricks.streams import Stream
    from bntricks.training.state import State


def concerns(method: Method) -> bool:
    """Whether the published code of this method has such a mistake: iCaRL, GSS, LwF and FDR."""
    moves_ema = method.ema is None and method.memory is not None and method.memory.moves_ema
    return method.mixes or method.reads_ema or method.teacher == "recorded" or moves_ema


def unaugmented(state: State, x: Tensor) -> Tensor:
    """View raw images as GSS scores and LwF records them: as published, without normalisation."""
    if state.options.as_published and x.dtype == torch.uint8:
        return x.to(torch.float32, memory_format=image_layout(x.device)).div_(255)
    return state.view(x, None)


def black(memory: Memory) -> Batch:
    """Return the empty slots as black samples of class 0 with outputs of zero, for which iCaRL and
    FDR took them whenever they read the whole memory."""
    empty = memory.capacity - memory.filled

    def zeros(like: Tensor) -> Tensor:
        return like.new_zeros(empty, *like.shape[1:])

    assert memory.x is not None
    logits = None if memory.logits is None else zeros(memory.logits)
    return Batch(zeros(memory.x), zeros(memory.y), logits, ids=zeros(memory.ids) - 1)


def fill_empty_slots(state: State) -> None:
    """Fill the memory as such a policy found it at the end of a task, from the second on."""
    if state.options.as_published and state.memory:
        state.memory.append(black(state.memory), task=1)


def overruns(state: State, batches: int, share: int) -> bool:
    """Whether FDR's pass at the end of a task goes on after `batches`. It ended with the first
    batch that began beyond the task's share, and that one moved φ too."""
    return state.options.as_published and (batches - 1) * state.options.batch <= share


def corrupted(x: Tensor, stream: Stream) -> Tensor:
    """Corrupt exemplars as iCaRL's published loader did: it undid a normalisation they never had,
    which left them dark (k·σ + μ), and exchanged height and width. On Tiny-ImageNet the arithmetic
    wrapped as well, k to 256 - k, which inverted the colours."""
    mean = torch.tensor(stream.mean)[:, None, None]
    std = torch.tensor(stream.std)[:, None, None]
    dark = (x.cpu().float() * std + mean).to(torch.uint8).transpose(2, 3)
    if stream.name.startswith("seq-tiny-imagenet"):
        dark = (256 - dark.to(torch.int16)).remainder(256).to(torch.uint8)
    return dark.contiguous().to(x.device)
