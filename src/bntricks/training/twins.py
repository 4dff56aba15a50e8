"""The same θ with another φ: what a method would predict that trains alike, and differs only in the
batch that φ follows."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bntricks.recipes.language import Method, Source


@dataclass
class Twin:
    """The network once more: the very same parameters, and a φ of its own."""

    ema: Source
    net: nn.Module

    @property
    def buffers(self) -> dict[str, Tensor]:
        """Its φ, counters included."""
        return dict(self.net.named_buffers())

    @torch.no_grad()
    def copy_buffers(self, buffers: Mapping[str, Tensor]) -> None:
        for name, buffer in self.net.named_buffers():
            buffer.copy_(buffers[name])

    def regrown(self, net: nn.Module) -> Twin:
        """The twin of this network, whose head has grown, with this φ."""
        twin = Twin(self.ema, with_own_buffers(net))
        twin.copy_buffers(self.buffers)
        return twin


def twins(net: nn.Module, method: Method, readings: Mapping[str, Method]) -> dict[str, Twin]:
    """One for each of these methods whose φ follows another batch than this one's."""
    return {
        name: Twin(reading.ema, with_own_buffers(net))
        for name, reading in readings.items()
        if reading.ema is not None and reading.ema != method.ema
    }


def with_own_buffers(net: nn.Module) -> nn.Module:
    """A copy of the network that shares its parameters."""
    return copy.deepcopy(net, {id(parameter): parameter for parameter in net.parameters()})
