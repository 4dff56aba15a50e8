"""What is measured at which size; the defaults are those the bounds are meant for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bntricks.streams import View

BATCH, CAPACITY, CLASSES = 32, 500, 10
VIEW = View((0.5,) * 3, (0.25,) * 3, pad=4, flip=True)


@dataclass(frozen=True, slots=True)
class Settings:
    """How large networks, images and epochs are, and how often everything is measured."""

    width: int = 64
    narrow: int = 8
    """Width of the second network, beside which everything else weighs more."""
    side: int = 32
    """Of an image, in pixels."""
    batches: int = 16
    """In an epoch."""
    rounds: int = 15
    methods: tuple[str, ...] = ()
    """Whose steps are measured; all if none is named."""


def random_images(count: int, side: int) -> Tensor:
    """Raw images, the same every time."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, 3, side, side), dtype=torch.uint8, generator=generator)
