"""θ ← θ − η·(∇ + w·θ): plain gradient descent, which keeps nothing between two steps.

`torch.optim.SGD` gives the same bits, but brings PyTorch's compiler into every process that trains,
which takes longer to import than torch itself (`python -X importtime -c "import torch._dynamo"`).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Descent:
    """One step at a time, of these parameters: those that have a gradient move."""

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
