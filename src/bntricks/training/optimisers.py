"""How θ moves, by name. An optimiser's state is part of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bntricks.errors import UserError
from bntricks.registry import Registry

LARGEST_RATE = 1e30
"""Far beyond any use, and so far below what float32 can hold that no sum overflows at once."""


def check_rate(lr: float) -> None:
    if not 0 < lr <= LARGEST_RATE:
        raise UserError(
            f"it must be above 0, such as 0.03, and {LARGEST_RATE:g} at most",
            option="lr",
            value=lr,
        )


class Optimiser(Protocol):
    """One step at a time, of the parameters it was made with."""

    lr: float

    def zero_grad(self) -> None: ...
    def step(self) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        """What it keeps between two steps: tensors and plain values, nested."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


MakeOptimiser = Callable[[Iterable[nn.Parameter], float, float], Optimiser]
"""Of parameters, learning rate and weight decay w, which adds w·θ to the gradient."""

OPTIMISERS: Registry[MakeOptimiser] = Registry("optimiser")


@OPTIMISERS.named("sgd")
class GradientDescent:
    """θ ← θ − η·(∇ + w·θ): plain gradient descent, which keeps nothing between two steps.

    `torch.optim.SGD` gives the same bits, but brings PyTorch's compiler into every process that
    trains, which takes longer to import than torch itself
    (`python -X importtime -c "import torch._dynamo"`).
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, decay: float = 0.0) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.decay = decay

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """All parameters at once: on a GPU, a few kernels instead of two for each."""
        moving: list[Tensor] = [each for each in self.parameters if each.grad is not None]
        slopes = [each.grad for each in moving if each.grad is not None]
        if self.decay:
            slopes = list(torch._foreach_add(slopes, moving, alpha=self.decay))
        torch._foreach_add_(moving, slopes, alpha=-self.lr)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
