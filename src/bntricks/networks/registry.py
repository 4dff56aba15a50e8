"""Every network by name, and how one is built: from the same generator to the same weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Generator, nn

from bntricks.networks.norms import bound, describe
from bntricks.registry import Registry
from bntricks.seeds import construction

Builder = Callable[..., nn.Module]
"""(shape of a sample, outputs, *, width, blocks, stages, norm) to a network. Its last linear layer
is its head."""

NETWORKS: Registry[Builder] = Registry(
    "network", home="bntricks.networks", group="bntricks.networks"
)


def build_network(
    name: str,
    shape: Sequence[int],
    outputs: int,
    init: Generator,
    *,
    width: int,
    blocks: int,
    stages: int,
    norm: str = "bn",
    **knobs: Any,
) -> nn.Module:
    """A fresh network for samples of this shape. Those for images keep channels last, the layout
    that convolutions are fastest in. `knobs` are those of the norm; what it does not have, it is
    not given."""
    build, layer = NETWORKS.find(name), bound(norm, **knobs)
    with construction(init):
        net = build(shape, outputs, width=width, blocks=blocks, stages=stages, norm=layer)
    net = describe(norm).network(net)
    return channels_last(net) if len(shape) == 3 else net


def channels_last(net: nn.Module) -> nn.Module:
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
