"""Batches, their union, and the balanced batch B_b (paper, Algorithm 1, line 3).

Images are on the device; labels and all else that is counted are on the host, so that no count
waits for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import torch
from torch import Generator, Tensor

from bntricks.errors import UserError
from bntricks.system.devices import take, to_device

BalanceRule = Literal["count", "ratio"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Samples, with what a memory or a teacher has added to them."""

    x: Tensor
    y: Tensor  # [B], on the host
    logits: Tensor | None = None  # [B, C]: stored with the samples, or a teacher's
    # All of these are [B], on the host:
    weight: Tensor | None = None  # in a mean over the batch
    ids: Tensor | None = None  # positions among the task's samples
    stored: Tensor | None = None  # the task each was stored in; 0: it comes from the stream
    partner: Tensor | None = None  # labels of the images blended into these
    share: Tensor | None = None  # of the image itself in that blend

    def __post_init__(self) -> None:
        if self.y.device.type != "cpu":
            raise ValueError(f"labels belong on the CPU, and these are on {self.y.device}: y.cpu()")
        if self.y.dim() != 1 or len(self.x) != len(self.y):
            raise ValueError(
                f"a batch has a label for each sample, and here x is {list(self.x.shape)} and y is "
                f"{list(self.y.shape)}"
            )

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, which: slice | Tensor) -> Batch:
        """Select some of the samples, with all their fields."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(self, **{n: v[which] for n, v in values.items() if v is not None})

    def __or__(self, other: Batch) -> Batch:
        """Join two batches into one: one forward, joint batch statistics."""
        kept = {}
        for name, default in MISSING.items():
            own = [getattr(batch, name) for batch in (self, other)]
            if any(value is not None for value in own):
                pairs = zip((self, other), own, strict=True)
                kept[name] = torch.cat([default(b) if v is None else v for b, v in pairs])
        for name in ("logits", "ids"):  # both have them, or the union has none
            own = [getattr(batch, name) for batch in (self, other)]
            if all(value is not None for value in own):
                kept[name] = torch.cat(own)
        return Batch(torch.cat([self.x, other.x]), torch.cat([self.y, other.y]), **kept)


MISSING: dict[str, Callable[[Batch], Tensor]] = {
    "weight": lambda batch: torch.ones(len(batch)),
    "stored": lambda batch: torch.zeros(len(batch), dtype=torch.int64),
    "partner": lambda batch: batch.y,
    "share": lambda batch: torch.ones(len(batch)),
}
"""What stands for a field that one batch of a union lacks."""


def check_finite(x: Tensor, what: str) -> None:
    """Refuse values that are not finite: a single NaN would spread to all weights and φ."""
    if x.is_floating_point() and not x.isfinite().all():
        raise UserError(
            f"{what} holds NaN, infinity or values beyond float32: fill them in, or leave these "
            "samples out"
        )


def class_numbers(y: Tensor) -> Tensor:
    """Bring labels into the form a batch needs: int64, on the host."""
    if y.is_floating_point() or y.is_complex():
        raise ValueError(f"labels are class numbers, and these are {y.dtype}: give integers")
    return y.cpu().long()


def copies(batch: Batch, count: int) -> Batch:
    """Repeat a batch; the copies together weigh as much as one (ER-Balance-Batch, Sec. 4)."""
    weight = MISSING["weight"](batch) if batch.weight is None else batch.weight
    return Batch(
        batch.x.repeat(count, *[1] * (batch.x.dim() - 1)),
        batch.y.repeat(count),
        weight=weight.repeat(count) / count,
        stored=None if batch.stored is None else batch.stored.repeat(count),
    )


def blend(batch: Batch, alpha: float, generator: Generator) -> Batch:
    """Blend another image of the batch into each, and its label into the loss in the same
    proportion (mixup, Zhang et al. 2018). The image's own share is drawn from Beta(α, α)."""
    order = torch.randperm(len(batch), generator=generator)
    seed = int(torch.randint(2**62, (), generator=generator).numpy())
    shares = np.random.default_rng(seed).beta(alpha, alpha, len(batch))
    share = torch.from_numpy(shares.astype(np.float32))
    own = to_device(share, batch.x.device).view(-1, *[1] * (batch.x.dim() - 1))
    x = torch.lerp(take(batch.x, order, batch.x.device), batch.x, own)
    return replace(batch, x=x, partner=batch.y[order], share=share)


def balance(
    current: Batch,
    memory: Batch | None,
    *,
    new: Sequence[int],
    old: Sequence[int],
    rule: BalanceRule = "count",
    generator: Generator | None = None,
) -> Batch:
    """Make B_b: the memory batch plus as many current samples as make the classes even.

    `new` are the classes of the current task and `old` those of all earlier ones. The `count` rule
    counts the new samples that are already in the memory batch; the `ratio` rule does not. In the
    first task, or while the memory is empty, all samples are taken. Otherwise the first of the
    current samples join, or those that a `generator` draws, for loaders that do not shuffle.
    """
    if memory is None or len(memory) == 0:
        return current
    if not old:
        return current | memory
    fresh = int(np.isin(memory.y.numpy(force=True), list(new)).sum()) if rule == "count" else 0
    count = taken(len(memory), fresh, len(current), new=len(new), old=len(old))
    if not count:
        return memory
    if generator is None:
        return memory | current.rows(slice(count))
    return memory | current.rows(torch.randperm(len(current), generator=generator)[:count])


def taken(memory: int, fresh: int, current: int, *, new: int, old: int) -> int:
    """Count the current samples that join a memory batch, of which `fresh` are of new classes.
    `new` and `old` are numbers of classes."""
    # floor(known · new / old + 1/2), in whole numbers.
    even = (2 * (memory - fresh) * new + old) // (2 * old)
    # At least two samples in all: a single one has no variance to track.
    return min(max(even - fresh, 2 - memory, 0), current)


def shuffled(
    count: int, size: int, order: Generator, *, even: bool = False, y: Tensor | None = None
) -> Iterator[Tensor]:
    """Yield the indices of `count` samples in random order, in batches of this size.

    The last batch has the remainder; a single sample joins the batch before it, because BatchNorm
    needs a variance. If `even`, all batches have about the same size instead: a step on a handful
    of samples, normalised by their own statistics, can undo an epoch. With their labels `y`, as
    many samples are drawn of each class: those of small classes again and again.
    """
    chosen = torch.randperm(count, generator=order)
    if y is not None:
        chosen = _of_each_class(chosen, y, order)
    last = batch_count(count, size, even=even) - 1
    if even:
        yield from chosen.tensor_split(last + 1)
        return
    for index in range(last + 1):
        yield chosen[index * size : (index + 1) * size if index < last else None]


def _of_each_class(chosen: Tensor, y: Tensor, order: Generator) -> Tensor:
    """Replace samples in random order by as many, of which each class has the same number; left as
    they are if each has it already."""
    labels = sorted(set(y.tolist()))
    counts = torch.bincount(y)[labels]
    if int(counts.max() - counts.min()) <= 1:
        return chosen
    share, rest = divmod(len(chosen), len(labels))
    drawn = []
    for place, label in enumerate(labels):
        own, wanted = chosen[y[chosen] == label], share + (place < rest)
        again = [own[torch.randperm(len(own), generator=order)] for _ in range(wanted // len(own))]
        drawn.append(torch.cat([own, *again])[:wanted])
    every = torch.cat(drawn)
    return every[torch.randperm(len(every), generator=order)]


def batch_count(count: int, size: int, *, even: bool = False) -> int:
    """Count the batches that `shuffled` makes."""
    if even:
        return max(1, (2 * count + size) // (2 * size))  # the nearest whole number
    return max(1, -(-(count - 1) // size) if count % size == 1 else -(-count // size))
