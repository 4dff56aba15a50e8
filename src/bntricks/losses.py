"""The losses of the recipes: functions of the logits [B, C], the batch, and the lesson."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from bntricks.batch import Batch
from bntricks.recipe import Lesson, Loss

__all__ = ["ce"]


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
