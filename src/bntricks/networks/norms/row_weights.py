"""Moments of a batch whose rows do not weigh alike, and rows that are not scaled alike: what
layers need that balance tasks within a batch."""

from __future__ import annotations

import torch
from torch import Tensor


def weighted_moments(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance, [G, C], of every channel of x [N, C, H, W] for each of G sets of row
    weights [G, N]. Pixels of a row share its weight."""
    var, mean = torch.var_mean(x, (2, 3), correction=0)  # [N, C]
    centre = weights @ mean
    spread = var + (mean - centre[:, None]).square()  # [G, N, C]
    return centre, (weights[:, :, None] * spread).sum(1)


def scaled_rows(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """x·scale + shift, both [N, C] or [1, C]."""
    return torch.addcmul(shift[:, :, None, None], x, scale[:, :, None, None])
