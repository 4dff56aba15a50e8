"""From raw uint8 images to what the network sees: crop, flip, normalise, whole batches at once.

The crop acts on raw images, so its padding is black before normalisation. Which crop and flip
each image gets is drawn on the host from an explicit generator, so it is the same on any device.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from bntricks.system.devices import image_layout, to_device


def crop_and_flip(x: Tensor, pad: int, flip: bool, generator: Generator) -> Tensor:
    """Shift each image by up to `pad` pixels over black, and mirror half of them."""
    count, _, height, width = x.shape
    if pad:
        shifts = torch.randint(2 * pad + 1, (2, count), generator=generator)
        top, left = to_device(shifts, x.device)
        windows = F.pad(x, (pad, pad, pad, pad)).unfold(2, height, 1).unfold(3, width, 1)
        x = windows[torch.arange(count, device=x.device), :, top, left]
    if flip:
        mirrored = to_device(torch.rand(count, generator=generator) < 0.5, x.device)
        x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
    return x


@dataclass(frozen=True, slots=True)
class View:
    """Turns raw images into inputs, augmented if a generator is given. Without a mean, samples are
    inputs already."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 0
    flip: bool = False

    def __call__(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        if not self.mean:
            return x
        if generator is not None:
            x = crop_and_flip(x, self.pad, self.flip, generator)
        scale, shift = _scale_and_shift(self.mean, self.std, x.device)
        x = x.to(torch.float32, memory_format=image_layout(x.device))
        return x.mul_(scale).add_(shift)


def _scale_and_shift(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    if device.type != "cpu":
        return _kept_on_device(mean, std, device)
    means, stds = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None]
    return 1 / (255 * stds), -means / stds


@lru_cache(maxsize=64)
@torch.inference_mode(False)
def _kept_on_device(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Copy them once: each copy to an Apple GPU waits for it."""
    scale, shift = _scale_and_shift(mean, std, torch.device("cpu"))
    return to_device(scale, device), to_device(shift, device)
