"""Optimisers by name. Their state is part of a snapshot.

`torch.optim` has all of these, but imports PyTorch's compiler, which takes longer than torch itself
(`python -X importtime -c "import torch._dynamo"`).
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from bntricks.errors import UserError
from bntricks.plugins.registry import Registry

LARGEST_RATE = 1e30
"""Far beyond any use, and so far below the limit of float32 that no sum overflows at once."""


def check_rate(lr: float) -> None:
    if not 0 < lr <= LARGEST_RATE:
        raise UserError(
            f"it must be above 0, such as 0.03, and {LARGEST_RATE:g} at most",
            option="lr",
            value=lr,
        )


class Optimiser(Protocol):
    """Moves the parameters it was made with."""

    lr: float

    def zero_grad(self) -> None: ...
    def step(self) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        """Return its state between two steps: nested tensors and plain values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


MakeOptimiser = Callable[[Iterable[nn.Parameter], float, float], Optimiser]
"""A function of parameters, learning rate `lr`, whose default is that of new models, and weight
decay w, which adds w·θ to the gradient. If it has a keyword `momentum`, users can set that too."""

OPTIMISERS: Registry[MakeOptimiser] = Registry("optimiser")


def find_optimiser(name: str, momentum: float | None = None) -> MakeOptimiser:
    """Find the optimiser of this name, perhaps with another momentum."""
    make = OPTIMISERS.find(name)
    if momentum is None:
        return make
    if default_of(name, "momentum") is None:
        able = [each for each in OPTIMISERS.entries() if default_of(each, "momentum") is not None]
        raise UserError(
            f"{name} has no momentum that can be set: leave it out, or choose {' or '.join(able)}",
            option="sgd_momentum",
            value=momentum,
        )
    return partial(make, momentum=momentum)  # type: ignore[call-arg]


def default_of(name: str, option: Literal["lr", "momentum"]) -> float | None:
    """Return an optimiser's default of this option; None if it has none."""
    parameter = inspect.signature(OPTIMISERS.find(name)).parameters.get(option)
    default = None if parameter is None else parameter.default
    return default if isinstance(default, float) else None


@OPTIMISERS.named("sgd")
class GradientDescent:
    """Plain gradient descent: θ ← θ − η·(∇ + w·θ). The same bits as `torch.optim.SGD`."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float = 0.03, decay: float = 0.0
    ) -> None:
        self.parameters, self.lr, self.decay = list(parameters), lr, decay

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass

    @torch.no_grad()
    def step(self) -> None:
        moving, values, slopes = _moving(self.parameters)
        if moving:
            torch._foreach_add_(values, _decayed(slopes, values, self.decay), alpha=-self.lr)


@OPTIMISERS.named("sgdm")
class Momentum(GradientDescent):
    """Gradient descent with momentum: v ← m·v + ∇ + w·θ, θ ← θ − η·v, to the bits of torch's."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 0.03,
        decay: float = 0.0,
        *,
        momentum: float = 0.9,
    ) -> None:
        super().__init__(parameters, lr, decay)
        self.momentum = momentum
        self.velocities = [torch.zeros_like(each) for each in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        moving, values, slopes = _moving(self.parameters)
        if not moving:
            return
        velocities = [self.velocities[k] for k in moving]
        torch._foreach_mul_(velocities, self.momentum)
        torch._foreach_add_(velocities, _decayed(slopes, values, self.decay))
        torch._foreach_add_(values, velocities, alpha=-self.lr)

    def state_dict(self) -> dict[str, Any]:
        return {"velocities": self.velocities}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            _copy(state["velocities"], self.velocities)


@OPTIMISERS.named("adam")
class Adam(GradientDescent):
    """Adam (Kingma & Ba 2015): every parameter moves by about η a step, however steep the loss is.
    Weight decay is part of the gradient or, if `decoupled`, of the step (Loshchilov & Hutter 2019).
    The same values as `torch.optim.Adam` and `AdamW`, up to rounding."""

    betas = (0.9, 0.999)
    epsilon = 1e-8

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 0.003,
        decay: float = 0.0,
        *,
        decoupled: bool = False,
    ) -> None:
        super().__init__(parameters, lr, decay)
        self.decoupled = decoupled
        self.steps = 0
        self.means = [torch.zeros_like(each) for each in self.parameters]
        self.squares = [torch.zeros_like(each) for each in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        moving, values, slopes = _moving(self.parameters)
        if not moving:
            return
        means, squares = ([kept[k] for k in moving] for kept in (self.means, self.squares))
        first, second = self.betas
        if not self.decoupled:
            slopes = _decayed(slopes, values, self.decay)
        elif self.decay:
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
        if state:
            self.steps = int(state["steps"])
            _copy(state["means"], self.means)
            _copy(state["squares"], self.squares)


@OPTIMISERS.named("adamw")
def adamw(parameters: Iterable[nn.Parameter], lr: float = 0.003, decay: float = 0.0) -> Adam:
    """Adam with decoupled weight decay."""
    return Adam(parameters, lr, decay, decoupled=True)


@torch.no_grad()
def clip(parameters: Iterable[nn.Parameter], largest: float) -> None:
    """Scale the gradient of all parameters together down to this norm if it is longer."""
    slopes = [each.grad for each in parameters if each.grad is not None]
    if slopes:
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(slopes)))
        torch._foreach_mul_(slopes, (largest / (norm + 1e-6)).clamp(max=1.0))


def _moving(parameters: Sequence[nn.Parameter]) -> tuple[list[int], list[Tensor], list[Tensor]]:
    """Return the positions, values and gradients of the parameters that have a gradient, to move
    them all at once: on a GPU, by a few kernels instead of a few for each."""
    moving = [k for k, each in enumerate(parameters) if each.grad is not None]
    slopes = [each.grad for each in parameters if each.grad is not None]
    return moving, [parameters[k] for k in moving], slopes


def _decayed(slopes: list[Tensor], values: list[Tensor], decay: float) -> list[Tensor]:
    return list(torch._foreach_add(slopes, values, alpha=decay)) if decay else slopes


def _copy(saved: Iterable[Tensor], own: Iterable[Tensor]) -> None:
    for mine, theirs in zip(own, saved, strict=True):
        mine.copy_(theirs)
