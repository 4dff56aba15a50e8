"""BatchNorm over all ranks' parts of a batch: `nn.SyncBatchNorm` refuses CPU tensors."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bntricks.norm import layers


def synchronise(net: nn.Module) -> None:
    """From now on BatchNorm normalises by the moments of all ranks' parts together."""
    for layer in layers(net).values():
        layer.forward = partial(_normalised, layer)  # type: ignore[method-assign]


def _normalised(layer: _BatchNorm, x: Tensor) -> Tensor:
    if not layer.training:
        return type(layer).forward(layer, x)
    over = [0, *range(2, x.dim())]
    shape = [1, -1] + [1] * (x.dim() - 2)
    count = x.new_full((1,), x.numel() / x.shape[1])
    sums = _sum(torch.cat([x.sum(over), count]))
    mean = sums[:-1] / sums[-1]
    centred = x - mean.view(shape)
    var = _sum(centred.square().sum(over)) / sums[-1]
    out = centred * (var + layer.eps).rsqrt().view(shape)
    if not layer.affine:
        return out
    return out * layer.weight.view(shape) + layer.bias.view(shape)


def _sum(x: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(x)  # type: ignore[no-untyped-call]
    return total


class _Sum(torch.autograd.Function):
    """A sum over ranks that gradients flow through: each rank's loss depends on all parts."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        dist.all_reduce(total)
        return total
