"""From raw uint8 images to what the network sees: crop, flip, normalise, whole batches at once.

The crop acts on raw images, so its padding is black before normalisation. Which crop and flip
each image gets is drawn on the host from an explicit generator, so it is the same on any device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor


def crop_and_flip(x: Tensor, pad: int, flip: bool, generator: Generator) -> Tensor:
    """Each image of [B, C, H, W] shifted by up to `pad` pixels over black, and maybe mirrored."""
    count, _, height, width = x.shape
    if pad:
        top, left = torch.randint(2 * pad + 1, (2, count), generator=generator).to(x.device)
        windows = F.pad(x, (pad, pad, pad, pad)).unfold(2, height, 1).unfold(3, width, 1)
        x = windows[torch.arange(count, device=x.device), :, top, left]
    if flip:
        mirrored = (torch.rand(count, generator=generator) < 0.5).to(x.device)
        x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
    return x


@dataclass(frozen=True, slots=True)
class View:
    """How raw images become inputs: augmented by a generator, or plain without one."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 0
    flip: bool = False

    def __call__(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        if generator is not None:
            x = crop_and_flip(x, self.pad, self.flip, generator)
        mean, std = torch.tensor(self.mean), torch.tensor(self.std)
        scale, shift = (1 / (255 * std)).to(x.device), (-mean / std).to(x.device)
        x = x.to(torch.float32, memory_format=torch.channels_last)
        return x.mul_(scale[:, None, None]).add_(shift[:, None, None])
