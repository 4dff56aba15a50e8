"""Moments of rows, each by itself or by weight, and rows that are not scaled alike: what layers
need that do not treat a batch as one."""

from __future__ import annotations

import torch
from torch import Tensor


def mean_and_variance(x: Tensor) -> tuple[Tensor, Tensor]:
    """Of the channels of x [..., values, C], the variance biased. On a CPU `torch.var_mean` takes
    several times as long, and so does any reduction whose last dimension is not the channels."""
    mean = x.mean(-2)
    centred = x - mean[..., None, :]
    return mean, torch.linalg.vecdot(centred, centred, dim=-2) / x.shape[-2]


def row_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance, [N, C], of every channel of every row of x [N, C, H, W]."""
    return mean_and_variance(x.flatten(2).transpose(1, 2))


def weighted_moments(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance, [G, C], of every channel of x [N, C, H, W] for each of G sets of row
    weights [G, N]. Pixels of a row share its weight."""
    mean, var = row_moments(x)
    centre = weights @ mean
    spread = var + (mean - centre[:, None]).square()  # [G, N, C]
    return centre, (weights[:, :, None] * spread).sum(1)


def scaled_rows(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """x·scale + shift, both [N, C] or [1, C]."""
    return torch.addcmul(shift[:, :, None, None], x, scale[:, :, None, None])
