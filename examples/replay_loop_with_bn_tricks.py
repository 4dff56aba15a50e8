"""The same loop with BN Tricks: what replays, and how, is one object."""

import torch
import torch.nn.functional as F
from torch import nn

from bntricks import BNTricks


def tasks(count=4, batches=150, seed=0):
    """Pairs of classes that come one after another, in batches of 32."""
    random = torch.Generator().manual_seed(seed)
    centres = torch.randn(2 * count, 20, generator=random)
    for task in range(count):
        yield [
            (centres[y] + torch.randn(32, 20, generator=random), y)
            for y in torch.randint(2, (batches, 32), generator=random) + 2 * task
        ]


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 8))
optimiser = torch.optim.SGD(net.parameters(), lr=0.03)
tricks = BNTricks(net, memory=60)

for task in tasks():
    for x, y in task:
        loss = tricks.step(x, y, F.cross_entropy)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

net.eval()
correct = [(net(x).argmax(1) == y).float().mean() for task in tasks() for x, y in task]
print(f"accuracy on all eight classes: {100 * torch.stack(correct).mean():.1f}%")
