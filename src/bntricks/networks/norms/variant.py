"""What the variants of BatchNorm have in common: they differ from it in training alone, and some
want to know whose rows they normalise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bntricks.norm import BatchNorms, RunningStatistics, batch_norms


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Whose rows a batch has."""

    task: int
    """The task being learned, from 1."""
    stored: Tensor | None = None
    """[N], on the host: the task in which each row was stored, 0 for rows of the stream."""


class BatchNormVariant(RunningStatistics, nn.BatchNorm2d):
    """BatchNorm in evaluation mode; in training, what `normalise` makes of it.

    `rows` is what it was told about the batch at hand. A layer that depends on it and was told
    nothing is BatchNorm in training, too.
    """

    keeps_phi: str = ""
    """Why no recipe may name the batch that moves φ, if none may."""
    needs_joint: bool = False
    """It weighs rows of the stream against replayed ones, so it needs both in one forward."""
    rows: Rows | None = None
    plain: bool = False
    """If true, behaves exactly as BatchNorm; set while moments are measured."""
    penalty: Tensor | None = None
    """What its last training pass adds to the loss."""

    def forward(self, x: Tensor) -> Tensor:
        if self.plain or not self.training:
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):  # moments in bfloat16 lose digits
            return self.normalise(x)

    def normalise(self, x: Tensor) -> Tensor:
        """In training; as BatchNorm does, unless a variant says otherwise."""
        return super().forward(x)


@contextmanager
def told(net: nn.Module | BatchNorms, rows: Rows) -> Iterator[None]:
    """Forward passes of a batch with these rows."""
    variants = [layer for layer in batch_norms(net) if isinstance(layer, BatchNormVariant)]
    before = [layer.rows for layer in variants]
    try:
        for layer in variants:
            layer.rows = rows
        yield
    finally:
        for layer, own in zip(variants, before, strict=True):
            layer.rows = own


def penalty(net: nn.Module | BatchNorms) -> Tensor | None:
    """What the layers add to the loss of the last training pass, asked for once."""
    total: Tensor | None = None
    for layer in batch_norms(net):
        if isinstance(layer, BatchNormVariant) and layer.penalty is not None:
            total = layer.penalty if total is None else total + layer.penalty
            layer.penalty = None
    return total
