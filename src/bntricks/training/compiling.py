"""torch.compile for the network's passes, in place: names, weights and φ stay where they are."""

from __future__ import annotations

import torch

from bntricks.errors import UserError
from bntricks.norm import mode
from bntricks.recipes.policies import GradientGreedy
from bntricks.training.learner import Learner


def compile_passes(learner: Learner, shape: tuple[int, int, int]) -> None:
    """From now on the network's passes are compiled, once for each mode, shape and set of tracking
    flags. A first pass in evaluation mode, which moves no state, shows whether this machine can."""
    if isinstance(learner.method.memory, GradientGreedy):
        raise UserError(
            "--compile: GSS takes gradients from inside the layers, which compiled passes do not "
            "show: leave --compile out, or choose another --method"
        )
    net = learner.net
    net.compile()
    try:
        with mode(net, training=False), torch.inference_mode():
            net(torch.zeros(2, *shape, device=learner.device))
    except Exception as error:  # whatever a missing compiler makes of itself
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"--compile: torch.compile cannot compile the network here ({reason}): leave it out"
        ) from None
