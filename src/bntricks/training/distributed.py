"""One run on several devices, started by torchrun: every rank draws and augments the same batches
and keeps the same memory, and each passes its part of a batch through its copy of the network.

Gradients are summed, so θ stays equal on all ranks. φ follows the moments of the whole batch,
merged from those of the parts. A pass is normalised by the moments of a rank's own part or, with
synchronised statistics, by those of the whole batch, as in a run on one device.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bntricks.batch import Batch
from bntricks.errors import RunError, UserError
from bntricks.norm import Statistics, follow, frozen_ema, layers, observed
from bntricks.system.ranks import STORE, follow_launcher, launched as launched

PATIENCE = timedelta(minutes=30)
"""The longest wait for other ranks, which may prepare a task or write a checkpoint."""
LOST = ("gloo", "Connection", "NCCL", "Socket")
"""Words of errors that say that another rank no longer answers."""


class Ranks(Protocol):
    """The processes that share a step, this one among them."""

    rank: int
    size: int

    def part(self, batch: Batch) -> tuple[Batch, float]:
        """Return this rank's part of a batch, and its share in the batch's mean loss."""

    def whole(self, outputs: Tensor, count: int) -> Tensor:
        """Collect the outputs of all parts, in the batch's order."""

    def add(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all ranks, in place."""

    def add_all(self, tensors: Sequence[Tensor]) -> None:
        """Sum tensors over all ranks, in place, in one message."""

    def tracking(self, net: nn.Module, count: int) -> AbstractContextManager[None]:
        """Let passes of this rank's part move φ by the whole batch of `count` samples."""


class Alone:
    """A single process, with the interface of `Ranks`."""

    rank, size = 0, 1

    def part(self, batch: Batch) -> tuple[Batch, float]:
        return batch, 1.0

    def whole(self, outputs: Tensor, count: int) -> Tensor:
        return outputs

    def add(self, tensor: Tensor) -> Tensor:
        return tensor

    def add_all(self, tensors: Sequence[Tensor]) -> None:
        pass

    def tracking(self, net: nn.Module, count: int) -> AbstractContextManager[None]:
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
        mine = batch.rows(rows)
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

    def add_all(self, tensors: Sequence[Tensor]) -> None:
        flat = self.add(torch.cat([tensor.flatten() for tensor in tensors]))
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    @contextmanager
    def tracking(self, net: nn.Module, count: int) -> Iterator[None]:
        with observed(net) as seen, frozen_ema(net):
            yield
        if seen and self._rows(count) is not None:
            follow(net, self._merged(seen))
        else:  # every rank has passed the whole batch
            follow(net, {name: (own.mean, own.var) for name, own in seen.items()})

    def agree(self, state: bytes, what: str) -> None:
        """Stop unless all ranks have the same state."""
        own = torch.frombuffer(bytearray(hashlib.sha256(state).digest()), dtype=torch.uint8)
        sums = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(sums, own)
        if any(not torch.equal(each, own) for each in sums):
            raise RunError(f"the ranks of this run do not agree on {what}: they cannot go on")

    def _rows(self, count: int) -> slice | None:
        """Return this rank's rows; None: a batch with fewer than two per rank is not split."""
        if count < 2 * self.size:
            return None
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def _merged(self, own: Statistics) -> dict[str, tuple[Tensor, Tensor]]:
        """Merge mean and variance of the whole batch for all layers, from one message of each rank:
        counts, means and variances, channel after channel. No rank waits for a count."""
        sent = torch.cat(
            [torch.stack([torch.full_like(m.mean, m.count), m.mean, m.var]) for m in own.values()],
            dim=1,
        )
        received = [torch.empty_like(sent) for _ in range(self.size)]
        dist.all_gather(received, sent)
        counts, means, variances = torch.stack(received, dim=1)  # each [ranks, channels]
        total = counts.sum(0)
        mean = (counts * means).sum(0) / total
        squares = (variances * (counts - 1) + counts * (means - mean).square()).sum(0)
        widths = [len(m.mean) for m in own.values()]
        var = squares / (total - 1).clamp_min(1)
        merged = zip(torch.split(mean, widths), torch.split(var, widths), strict=True)
        return dict(zip(own, merged, strict=True))


@contextmanager
def joined(size: int, device: str) -> Iterator[Ranks]:
    """Join the ranks that torchrun has started; with a size of 1, there is only this one."""
    if size == 1:
        yield ALONE
        return
    backend = "gloo"
    if device.startswith("cuda"):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    follow_launcher()
    dist.init_process_group(
        backend, os.environ.get(STORE), timeout=PATIENCE, rank=launched()[0], world_size=size
    )
    try:
        yield Team()
    except RuntimeError as error:
        if not any(word in str(error) for word in LOST):
            raise
        raise RunError(
            "another process of this run has ended: repeat the command, which goes on from the "
            "last checkpoint"
        ) from None
    finally:
        dist.destroy_process_group()


def synchronise(net: nn.Module) -> None:
    """Make BatchNorm normalise by the moments of all ranks' parts together, in place.
    (`nn.SyncBatchNorm` refuses CPU tensors.)"""
    for name, layer in layers(net).items():
        if not isinstance(layer, _BatchNorm):
            raise UserError(
                f"layer {name!r} ({type(layer).__name__}) normalises in its own way, which cannot "
                "be done by the moments of all processes: leave it out",
                option="synchronised",
            )
        layer.forward = partial(_normalised, layer)  # type: ignore[method-assign]


def _normalised(layer: _BatchNorm, x: Tensor) -> Tensor:
    if not layer.training:
        return type(layer).forward(layer, x)
    over = [0, *range(2, x.dim())]
    shape = [1, -1] + [1] * (x.dim() - 2)
    wide = x.float()  # bfloat16 is too coarse for sums
    own_var, own_mean = torch.var_mean(wide, over, correction=0)
    own_count = torch.full_like(own_mean, wide.numel() / wide.shape[1])
    counts, means, variances = _gathered(torch.stack([own_count, own_mean, own_var])).unbind(1)
    total = counts.sum(0)
    mean = (counts * means).sum(0) / total
    var = (counts * (variances + (means - mean).square())).sum(0) / total
    out = (wide - mean.view(shape)) * (var + layer.eps).rsqrt().view(shape)
    if layer.weight is not None:
        out = out * layer.weight.view(shape) + layer.bias.view(shape)
    return out.to(x.dtype)


def _gathered(x: Tensor) -> Tensor:
    every: Tensor = _Gathered.apply(x)  # type: ignore[no-untyped-call]
    return every


class _Gathered(torch.autograd.Function):
    """Gathers the tensors of all ranks, [ranks, ...], and lets gradients flow back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        every = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(every, x)
        return torch.stack(every)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        dist.all_reduce(total)
        return total[dist.get_rank()]
