"""How the doctor looks at a network: where its inputs belong, and that it stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain

import torch
from torch import Tensor, nn

Scores = Callable[[nn.Module, Tensor], Tensor]
"""From a network and its inputs to a score for every class, [N, C]."""


def outputs(net: nn.Module, x: Tensor) -> Tensor:
    """The scores of a network that returns them as they are."""
    return net(x)  # type: ignore[no-any-return]


@contextmanager
def untouched(net: nn.Module) -> Iterator[None]:
    """Buffers and the global generators are afterwards what they were.

    Contexts of `norm` see to flags and hooks. This is for what a stranger's forward pass may do
    besides, such as counting its calls or rebinding a buffer.
    """
    found = [
        (module, name, buffer, buffer.clone())
        for module in net.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    devices = {t.device.index for t in chain(net.parameters(), net.buffers()) if t.is_cuda}
    with torch.random.fork_rng(sorted(devices)):
        try:
            yield
        finally:
            for module, name, buffer, content in found:
                module._buffers[name] = buffer
                if not torch.equal(buffer, content):
                    with torch.no_grad():
                        buffer.copy_(content)


def placed(net: nn.Module) -> Callable[[Tensor], Tensor]:
    """Brings inputs to the device of the network and, if they are fractions, to its precision."""
    like = next((t for t in chain(net.parameters(), net.buffers()) if t.is_floating_point()), None)

    def place(x: Tensor) -> Tensor:
        if like is None:
            return x
        return x.to(like.device, like.dtype if x.is_floating_point() else x.dtype)

    return place
