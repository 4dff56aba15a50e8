"""A network for vectors, or for images as vectors: two hidden layers, each with BatchNorm."""

from collections.abc import Sequence
from math import prod

from torch import nn

from bntricks.errors import UserError
from bntricks.networks.norms import Norm
from bntricks.networks.norms.batch_norm import batch_norm
from bntricks.networks.registry import NETWORKS


@NETWORKS.named("mlp")
def mlp(shape: Sequence[int], outputs: int, *, width: int, norm: Norm = batch_norm) -> nn.Module:
    """A perceptron with two hidden layers. It also begins with BatchNorm, so that features may have
    any scale, and those constant so far may vary in a later task."""
    if norm is not batch_norm:
        raise UserError(
            "the mlp has plain BatchNorm only: leave out the norm and its options", option="norm"
        )
    inputs = prod(shape)
    return nn.Sequential(
        *([] if len(shape) == 1 else [nn.Flatten()]),
        nn.BatchNorm1d(inputs),
        *_hidden(inputs, width),
        *_hidden(width, width),
        nn.Linear(width, outputs),
    )


def _hidden(inputs: int, width: int) -> list[nn.Module]:
    # No bias: BatchNorm would subtract it again.
    return [nn.Linear(inputs, width, bias=False), nn.BatchNorm1d(width), nn.ReLU()]
