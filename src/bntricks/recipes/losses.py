"""The losses of the recipes: functions of the logits [B, C], the batch, and the lesson."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from bntricks.batch import Batch
from bntricks.recipes.language import Lesson, Loss

__all__ = ["ce", "ce_seen", "fdr", "icarl", "kd", "lwf"]


def loss(name: str) -> Callable[[Callable[[Tensor, Batch, Lesson], Tensor]], Loss]:
    """Name a loss function, so that recipes can apply it to batch symbols."""
    return lambda function: Loss(name, function)


@loss("CE")
def ce(logits: Tensor, batch: Batch, lesson: Lesson) -> Tensor:
    """Softmax cross-entropy over all C outputs, seen or not; a (weighted) mean over the batch."""
    y = batch.y.to(logits.device, non_blocking=True)
    if batch.weight is None:
        return F.cross_entropy(logits, y)
    weight = batch.weight.to(logits.device, non_blocking=True)
    return (F.cross_entropy(logits, y, reduction="none") * weight).sum() / weight.sum()


@loss("CE_seen")
def ce_seen(logits: Tensor, batch: Batch, lesson: Lesson) -> Tensor:
    """Cross-entropy among the classes seen so far (LwF)."""
    rest = [c for c in range(logits.shape[1]) if c not in set(lesson.seen)]
    hidden = logits.index_fill(1, _columns(rest, logits), -torch.inf)
    return F.cross_entropy(hidden, batch.y.to(logits.device, non_blocking=True))


@loss("KD")
def kd(logits: Tensor, batch: Batch, lesson: Lesson) -> Tensor:
    """Mean squared distance to the logits stored with the samples (DER, DER++), for each sample
    over those it was stored with: the head may have grown since."""
    stored = _beside(batch)
    known = ~stored.isnan()
    # Exactly 1 for a sample that knows all, and no count waits for the device.
    scale = (known.shape[1] / known.sum(1, keepdim=True)).sqrt()
    now = torch.where(known, logits[:, : stored.shape[1]], 0.0)
    return F.mse_loss(scale * now, scale * torch.where(known, stored, 0.0))


@loss("LwF")
def lwf(logits: Tensor, batch: Batch, lesson: Lesson) -> Tensor:
    """Cross-entropy to recorded outputs among the old classes, at temperature 2; 0 in task 1."""
    if not lesson.old:
        return logits.new_zeros(())
    old = _columns(lesson.old, logits)
    wanted = F.softmax(_beside(batch)[:, old] / 2, 1)
    return F.cross_entropy(logits[:, old] / 2, wanted)


@loss("FDR")
def fdr(logits: Tensor, batch: Batch, lesson: Lesson) -> Tensor:
    """Mean distance, not squared, between class probabilities now and as stored."""
    stored = _beside(batch)
    unknown = stored.isnan()  # outputs that the head had not yet
    now = F.softmax(logits[:, : stored.shape[1]].masked_fill(unknown, -torch.inf), 1)
    then = F.softmax(stored.masked_fill(unknown, -torch.inf), 1)
    distances: Tensor = torch.linalg.vector_norm(now - then, dim=1)
    return distances.mean()


@loss("iCaRL")
def icarl(logits: Tensor, batch: Batch, lesson: Lesson) -> Tensor:
    """Binary cross-entropy over the classes seen: the previous network's sigmoids for old classes,
    whatever the sample's label, and one-hot for new ones."""
    new = _columns(lesson.new, logits)
    wanted = (batch.y.to(logits.device, non_blocking=True)[:, None] == new).to(logits.dtype)
    if lesson.old:
        old = _columns(lesson.old, logits)
        wanted = torch.cat([_beside(batch)[:, old].sigmoid(), wanted], 1)
    seen = logits[:, _columns(lesson.seen, logits)]
    return F.binary_cross_entropy_with_logits(seen, wanted)


def _columns(classes: Sequence[int], logits: Tensor) -> Tensor:
    return torch.tensor(list(classes), dtype=torch.int64).to(logits.device, non_blocking=True)


def _beside(batch: Batch) -> Tensor:
    if batch.logits is None:
        raise ValueError("this loss compares with logits kept beside the samples: there are none")
    return batch.logits
