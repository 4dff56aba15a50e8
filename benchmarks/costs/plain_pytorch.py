"""Plain PyTorch, as anyone would write it: what everything else is measured against. The images are
in memory as the network wants them; nothing is loaded, augmented or remembered."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from bntricks.networks.resnet import ResNet
from costs.settings import CLASSES
from costs.timing import Workload


def plain_steps(width: int, side: int, *, passes: int, batch: int, steps: int = 1) -> Workload:
    """SGD steps, each of so many forward and backward passes of a batch."""
    torch.manual_seed(0)
    net = ResNet(CLASSES, width=width)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.001)
    x, y = torch.randn(batch, 3, side, side), torch.randint(CLASSES, (batch,))

    def work() -> None:
        for _ in range(steps):
            optimiser.zero_grad()
            for _ in range(passes):
                F.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    return work


def plain_evaluation(forward: Callable[[Tensor], Tensor], inputs: Tensor) -> Workload:
    """The loop of every tutorial: batches of 32, no gradients, the outputs kept. The network is in
    evaluation mode already."""

    def work() -> Tensor:
        with torch.no_grad():
            return torch.cat([forward(x) for x in torch.split(inputs, 32)])

    return work
