"""Another normalisation for any existing network."""

from typing import Any

import torch
from torch import nn

from bntricks.networks.norms import Norm, bound, describe
from bntricks.norm import layers

DEFAULT_EPS = 1e-5
"""PyTorch's ε in every normalisation."""


def replace_norm(net: nn.Module, norm: str | Norm, **knobs: Any) -> nn.Module:
    """Swap every `BatchNorm2d` of a network for a layer of this scheme, in place.

    `norm` is a name, with values of its `knobs`, or a function from channels to a layer. The new
    layers take over the parameters γ and β of the old ones, if any, so an optimiser stays valid,
    and their φ if they keep one. Their ε is that of the old ones, unless they are made with another
    than PyTorch's default. `adab2n` adds parameters of its own, and `gn+ws` standardises
    convolutions. Returns the network, or the new layer if the network was a single BatchNorm.

    >>> replace_norm(net, "cn", groups=8)
    >>> replace_norm(net, lambda channels: nn.GroupNorm(4, channels))
    """
    if isinstance(norm, str):
        net, norm = describe(norm).network(net), bound(norm, **knobs)
    if isinstance(net, nn.BatchNorm2d):
        return _replaced(net, norm)
    new: dict[nn.Module, nn.Module] = {}  # a shared layer stays shared
    for module in list(net.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                if child not in new:
                    new[child] = _replaced(child, norm)
                setattr(module, name, new[child])
    return net


@torch.no_grad()
def _replaced(old: nn.BatchNorm2d, make: Norm) -> nn.Module:
    new = make(old.num_features)
    for part in new.modules():
        for name in ("weight", "bias"):
            own = getattr(part, name, None)
            if isinstance(own, nn.Parameter) and own.shape == (old.num_features,):
                setattr(part, name, getattr(old, name))
        if getattr(part, "eps", None) == DEFAULT_EPS:
            part.eps = old.eps  # type: ignore[assignment]
    for layer in layers(new).values():
        for name, buffer in layer.named_buffers(recurse=False):
            if getattr(old, name, None) is not None:
                setattr(layer, name, getattr(old, name).to(buffer.dtype))
    return new.to(_device(old)).train(old.training)


def _device(layer: nn.Module) -> torch.device:
    return next((t.device for t in (*layer.parameters(), *layer.buffers())), torch.device("cpu"))
