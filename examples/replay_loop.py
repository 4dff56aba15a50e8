"""Plain experience replay in plain PyTorch: a loop like many, before BN Tricks."""

import torch
import torch.nn.functional as F
from torch import nn


def tasks(count=4, batches=150, seed=0):
    """Pairs of classes that come one after another, in batches of 32."""
    random = torch.Generator().manual_seed(seed)
    centres = torch.randn(2 * count, 20, generator=random)
    for task in range(count):
        yield [
            (centres[y] + torch.randn(32, 20, generator=random), y)
            for y in torch.randint(2, (batches, 32), generator=random) + 2 * task
        ]


class Reservoir:
    """A replay memory, as every code base has one."""

    def __init__(self, capacity, seed=0):
        self.capacity, self.seen = capacity, 0
        self.x, self.y = [], []
        self.random = torch.Generator().manual_seed(seed)

    def add(self, x, y):
        for sample, label in zip(x, y, strict=True):
            if len(self.x) < self.capacity:
                self.x.append(sample)
                self.y.append(label)
            else:
                slot = int(torch.randint(self.seen + 1, (), generator=self.random))
                if slot < self.capacity:
                    self.x[slot], self.y[slot] = sample, label
            self.seen += 1

    def sample(self, count):
        chosen = torch.randperm(len(self.x), generator=self.random)[:count]
        return torch.stack([self.x[i] for i in chosen]), torch.stack([self.y[i] for i in chosen])


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 8))
optimiser = torch.optim.SGD(net.parameters(), lr=0.03)
memory = Reservoir(60)

for task in tasks():
    for x, y in task:
        inputs, labels = x, y
        if memory.x:
            old_x, old_y = memory.sample(32)
            inputs, labels = torch.cat([x, old_x]), torch.cat([y, old_y])
        loss = F.cross_entropy(net(inputs), labels)
        memory.add(x, y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

net.eval()
correct = [(net(x).argmax(1) == y).float().mean() for task in tasks() for x, y in task]
print(f"accuracy on all eight classes: {100 * torch.stack(correct).mean():.1f}%")
