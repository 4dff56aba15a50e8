"""BN Tricks in your own loop: a plain PyTorch model, a plain loop, three borrowed pieces."""

import torch
import torch.nn.functional as F
from torch import nn

from bntricks import Batch, Memory, balance, frozen_ema, update_ema

torch.manual_seed(0)
centres = 3 * torch.randn(6, 20)  # six classes, which arrive two at a time
net = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 6))
optimiser = torch.optim.SGD(net.parameters(), lr=0.03)
memory = Memory(60, insertion=torch.Generator(), sampling=torch.Generator())

for t in range(3):
    new, old = [2 * t, 2 * t + 1], list(range(2 * t))
    for _ in range(200):
        y = torch.randint(2, (32,)) + 2 * t
        current = Batch(centres[y] + torch.randn(32, 20), y)
        replay = memory.sample(32)

        # φ follows a class-balanced batch, and nothing else.
        update_ema(net, balance(current, replay, new=new, old=old).x)
        # θ is trained on the current and the memory batch separately, and φ is left alone.
        with frozen_ema(net):
            loss = F.cross_entropy(net(current.x), current.y)
            if replay is not None:
                loss = loss + F.cross_entropy(net(replay.x), replay.y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        memory.add(current)

net.eval()
y = torch.arange(6).repeat(100)
accuracy = (net(centres[y] + torch.randn(600, 20)).argmax(1) == y).float().mean()
print(f"accuracy on all six classes: {100 * accuracy:.1f}%")
