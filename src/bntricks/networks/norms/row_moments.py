"""Moments and affine maps of rows, for layers that normalise in several operations."""

import torch
from torch import Tensor, nn

from bntricks.norm import mean_and_variance


def row_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance, [N, C], of every channel of every row of x [N, C, H, W]."""
    return mean_and_variance(x.flatten(2).transpose(1, 2))


def weighted_moments(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance, [G, C], of every channel of x [N, C, H, W] for each of G sets of
    row weights [G, N]. Pixels of a row share its weight."""
    mean, var = row_moments(x)
    centre = weights @ mean
    spread = var + (mean - centre[:, None]).square()  # [G, N, C]
    return centre, (weights[:, :, None] * spread).sum(1)


def scaled_rows(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Return x·scale + shift, both [N, C] or [1, C]."""
    return torch.addcmul(shift[:, :, None, None], x, scale[:, :, None, None])


def affine_map(layer: nn.BatchNorm2d | nn.GroupNorm) -> tuple[Tensor | float, Tensor | float]:
    """Return γ and β of a layer, 1 and 0 if it has none."""
    return (layer.weight, layer.bias) if layer.weight is not None else (1.0, 0.0)
