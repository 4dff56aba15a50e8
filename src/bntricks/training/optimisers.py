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


@OPTIMISERS.named("adamw")
class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019): every parameter moves by about
    η a step, however steep the loss is, so one rate suits networks of many kinds.

    `torch.optim.AdamW` gives the same values to rounding, and brings the compiler: see above.
    """

    betas = (0.9, 0.999)
    epsilon = 1e-8

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, decay: float = 0.0) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.decay = decay
        self.steps = 0
        self.means = [torch.zeros_like(each) for each in self.parameters]
        self.squares = [torch.zeros_like(each) for each in self.parameters]

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """All parameters at once, as above."""
        self.steps += 1
        moving = [k for k, each in enumerate(self.parameters) if each.grad is not None]
        if not moving:
            return
        values: list[Tensor] = [self.parameters[k] for k in moving]
        slopes = [each.grad for each in self.parameters if each.grad is not None]
        means, squares = ([kept[k] for k in moving] for kept in (self.means, self.squares))
        first, second = self.betas
        if self.decay:
            torch._foreach_mul_(values, 1 - self.lr * self.decay)
        torch._foreach_lerp_(means, slopes, 1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, slopes, slopes, value=1 - second)
        scale = torch._foreach_sqrt(squares)
        torch._foreach_div_(scale, (1 - second**self.steps) ** 0.5)
        torch._foreach_add_(scale, self.epsilon)
        torch._foreach_addcdiv_(values, means, scale, value=-self.lr / (1 - first**self.steps))

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "means": self.means, "squares": self.squares}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not state:
            return
        self.steps = int(state["steps"])
        for own, other in ((self.means, state["means"]), (self.squares, state["squares"])):
            for mine, theirs in zip(own, other, strict=True):
                mine.copy_(theirs)
