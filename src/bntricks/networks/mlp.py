"""A network for samples that are vectors: two hidden layers, each with BatchNorm."""

from __future__ import annotations

from torch import nn


def perceptron(inputs: int, outputs: int, *, width: int) -> nn.Sequential:
    """BatchNorm comes first as well, so that features may be of any scale, and new ones may wake
    up in a later task."""
    return nn.Sequential(
        nn.BatchNorm1d(inputs),
        *_hidden(inputs, width),
        *_hidden(width, width),
        nn.Linear(width, outputs),
    )


def _hidden(inputs: int, width: int) -> list[nn.Module]:
    # No bias: BatchNorm takes the mean away again.
    return [nn.Linear(inputs, width, bias=False), nn.BatchNorm1d(width), nn.ReLU()]
