"""A network for samples that are vectors: two hidden layers, each with BatchNorm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from bntricks.errors import UserError
from bntricks.networks.norms import Norm
from bntricks.networks.norms.batch_norm import batch_norm
from bntricks.networks.registry import NETWORKS


@NETWORKS.named("mlp")
def mlp(
    shape: Sequence[int], outputs: int, *, width: int, norm: Norm = batch_norm, **_: Any
) -> nn.Module:
    """BatchNorm comes first as well, so that features may be of any scale, and those that were
    constant so far may vary in a later task."""
    if len(shape) != 1:
        raise UserError("it takes vectors, and these are images", option="net", value="mlp")
    if norm is not batch_norm:
        raise UserError("the mlp is normalised by bn alone", option="norm")
    (inputs,) = shape
    return nn.Sequential(
        nn.BatchNorm1d(inputs),
        *_hidden(inputs, width),
        *_hidden(width, width),
        nn.Linear(width, outputs),
    )


def _hidden(inputs: int, width: int) -> list[nn.Module]:
    # No bias: BatchNorm takes the mean away again.
    return [nn.Linear(inputs, width, bias=False), nn.BatchNorm1d(width), nn.ReLU()]
