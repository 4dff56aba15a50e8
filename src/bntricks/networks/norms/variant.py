"""The base of all variants of BatchNorm, which differ from it in training alone; some need to know
the origin of the rows they normalise."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bntricks.norm import BatchNorms, RunningStatistics, batch_norms


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The origin of a batch's rows."""

    task: int
    """The task being learned, from 1."""
    stored: Tensor | None = None
    """[N], on the host: the task in which each row was stored, 0 for rows of the stream."""


class BatchNormVariant(RunningStatistics, nn.BatchNorm2d):
    """BatchNorm in evaluation mode; in training, `normalise`.

    `rows` describes the batch at hand, inside `given_rows`. Without it, a layer that depends on it
    is BatchNorm in training, too.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    keeps_phi: str = ""
    """If a recipe may not name the batch that moves φ, why."""
    needs_joint: bool = False
    """Whether it weighs stream rows against replayed ones, so that it needs both in one forward."""
    rows: Rows | None = None
    plain: bool = False
    """Whether it behaves exactly as BatchNorm, while moments are measured."""
    penalty: Tensor | None = None
    """The last training pass's addition to the loss."""

    def forward(self, x: Tensor) -> Tensor:
        if self.plain or not self.training:
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):  # moments in bfloat16 lose digits
            return self.normalise(x)

    def normalise(self, x: Tensor) -> Tensor:
        """Normalise a training batch; overridden by each variant."""
        return super().forward(x)


@contextmanager
def given_rows(net: nn.Module | BatchNorms, rows: Rows) -> Iterator[None]:
    """Tell the layers the origin of the rows in every forward within."""
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
    """Take what the layers add to the loss of the last training pass."""
    total: Tensor | None = None
    for layer in batch_norms(net):
        if isinstance(layer, BatchNormVariant) and layer.penalty is not None:
            total = layer.penalty if total is None else total + layer.penalty
            layer.penalty = None
    return total
