"""A little network and a little stream, for laws that hold on any."""

import torch
from torch import nn


def network():
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Linear(5, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Linear(8, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Linear(8, 6),
    )


def batches(task, steps=3, size=7):
    """Batches of the two classes of a task, from 1."""
    generator = torch.Generator().manual_seed(task)
    for _ in range(steps):
        y = torch.randint(2, (size,), generator=generator) + 2 * (task - 1)
        yield torch.randn(size, 5, generator=generator) + y[:, None] / 3, y


def whole(task):
    """All samples of a task."""
    x, y = (torch.cat(part) for part in zip(*batches(task), strict=True))
    return x, y
