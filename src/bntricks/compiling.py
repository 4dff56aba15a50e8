"""torch.compile for the network's passes, in place: names, weights and φ stay where they are."""

from __future__ import annotations

import torch
from torch import nn

from bntricks.errors import UserError
from bntricks.norm import mode


def compile_passes(net: nn.Module, shape: tuple[int, int, int]) -> None:
    """From now on `net(x)` is compiled, once for each mode, shape and set of tracking flags. A
    first pass in evaluation mode, which moves no state, shows whether this machine can."""
    net.compile()
    device = next(net.parameters()).device
    try:
        with mode(net, training=False), torch.inference_mode():
            net(torch.zeros(2, *shape, device=device))
    except Exception as error:  # whatever a missing compiler makes of itself
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"--compile: torch.compile cannot compile the network here ({reason}): leave it out"
        ) from None
