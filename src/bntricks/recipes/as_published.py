"""Mistakes of the published code, for those who want to see what they explain (`as_published`).

By default images are normalised everywhere and replayed as they were stored. The code base the
paper built on (Mammoth at commit cb9a36d, 2021) departed from that in three places that move
numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from bntricks.recipes.language import Method
    from bntricks.streams import Stream
    from bntricks.training.state import State


def concerns(method: Method) -> bool:
    """Whether this method was published with one of them: iCaRL, GSS and LwF."""
    return method.mixes or method.reads_ema or method.teacher == "recorded"


def unaugmented(state: State, x: Tensor) -> Tensor:
    """Raw images as GSS scores them and LwF records them: as published, without normalisation."""
    if state.as_published and x.dtype == torch.uint8:
        return x.to(torch.float32, memory_format=torch.channels_last).div_(255)
    return state.view(x, None)


def corrupted(x: Tensor, stream: Stream) -> Tensor:
    """Exemplars as iCaRL's loader published them: turned back from a normalisation they never
    had, which left them dark (k·σ + μ), and with height and width exchanged. On Tiny-ImageNet the
    arithmetic wrapped as well, k to 256 - k, which inverted the colours."""
    mean = torch.tensor(stream.mean)[:, None, None]
    std = torch.tensor(stream.std)[:, None, None]
    dark = (x.cpu().float() * std + mean).to(torch.uint8).transpose(2, 3)
    if stream.name.startswith("seq-tiny-imagenet"):
        dark = (256 - dark.to(torch.int16)).remainder(256).to(torch.uint8)
    return dark.contiguous().to(x.device)
