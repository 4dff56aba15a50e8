"""One run on several devices, started by torchrun: every rank draws and augments the same batches
and keeps the same memory, and each passes its part of a batch through its copy of the network.

Gradients are summed, so θ stays equal on all ranks. φ follows the moments of the whole batch,
merged from those of the parts. What normalises a pass are the moments of a rank's own part, or,
where statistics are synchronised, those of the whole batch, as in a run on one device.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bntricks.batch import Batch
from bntricks.errors import RunError
from bntricks.norm import Moments, follow, frozen_ema, layers, observed

PATIENCE = timedelta(minutes=30)
"""How long to wait for ranks that prepare a task or write a checkpoint."""


class Ranks(Protocol):
    """The processes that share a step, this one among them."""

    rank: int
    size: int

    def part(self, batch: Batch) -> tuple[Batch, float]:
        """This rank's part of a batch, and its share in the batch's mean loss."""

    def whole(self, outputs: Tensor, count: int) -> Tensor:
        """The outputs of all parts, in the batch's order."""

    def add(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""

    def tracking(self, net: nn.Module) -> AbstractContextManager[None]:
        """A pass that moves φ by the whole batch."""


class Alone:
    """One rank has all."""

    rank, size = 0, 1

    def part(self, batch: Batch) -> tuple[Batch, float]:
        return batch, 1.0

    def whole(self, outputs: Tensor, count: int) -> Tensor:
        return outputs

    def add(self, tensor: Tensor) -> Tensor:
        return tensor

    def tracking(self, net: nn.Module) -> AbstractContextManager[None]:
        return nullcontext()


ALONE = Alone()


class Team:
    """One of several ranks."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def part(self, batch: Batch) -> tuple[Batch, float]:
        rows = self._rows(len(batch))
        if rows is None:
            return batch, 1 / self.size
        mine = Batch(
            batch.x[rows],
            batch.y[rows],
            None if batch.logits is None else batch.logits[rows],
            None if batch.weight is None else batch.weight[rows],
            None if batch.ids is None else batch.ids[rows],
            None if batch.stored is None else batch.stored[rows],
        )
        if mine.weight is None or batch.weight is None:
            return mine, len(mine) / len(batch)
        return mine, float(mine.weight.sum() / batch.weight.sum())

    def whole(self, outputs: Tensor, count: int) -> Tensor:
        rows = self._rows(count)
        if rows is None:
            return outputs
        whole = outputs.new_zeros(count, *outputs.shape[1:])
        whole[rows] = outputs
        return self.add(whole)

    def add(self, tensor: Tensor) -> Tensor:
        dist.all_reduce(tensor)
        return tensor

    @contextmanager
    def tracking(self, net: nn.Module) -> Iterator[None]:
        with observed(net) as seen, frozen_ema(net):
            yield
        follow(net, {name: self._merged(own) for name, own in seen.items()})

    def agree(self, state: bytes, what: str) -> None:
        """Stop unless all ranks have come to the same."""
        own = torch.frombuffer(bytearray(hashlib.sha256(state).digest()), dtype=torch.uint8)
        sums = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(sums, own)
        if any(not torch.equal(each, own) for each in sums):
            raise RunError(f"the ranks of this run do not agree on {what}: they cannot go on")

    def _rows(self, count: int) -> slice | None:
        """Too few samples to share out, two for each, go through every rank alike."""
        if count < 2 * self.size:
            return None
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def _merged(self, own: Moments) -> Moments:
        sent = torch.stack([torch.full_like(own.mean, own.count), own.mean, own.var])
        all_of_them = [torch.empty_like(sent) for _ in range(self.size)]
        dist.all_gather(all_of_them, sent)
        merged: Moments | None = None
        for count, mean, var in all_of_them:
            other = Moments(mean, var, int(count[0]))
            merged = other if merged is None else merged.merge(other)
        assert merged is not None
        return merged


@contextmanager
def joined(size: int, device: str) -> Iterator[Ranks]:
    """The ranks that torchrun has started, or none but this."""
    if size == 1:
        yield ALONE
        return
    if device.startswith("cuda"):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl", timeout=PATIENCE)
    else:
        dist.init_process_group("gloo", timeout=PATIENCE)
    try:
        yield Team()
    finally:
        dist.destroy_process_group()


def launched() -> tuple[int, int]:
    """This process's rank, and how many torchrun has started; (0, 1) without it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def synchronise(net: nn.Module) -> None:
    """From now on BatchNorm normalises by the moments of all ranks' parts together.
    (`nn.SyncBatchNorm` refuses CPU tensors.)"""
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
