"""Small colour images of four classes, and networks that learn them in a second."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bntricks.doctor.images import normalisation
from bntricks.doctor.preprocessing import KNOWN

IMAGENET, RAW = KNOWN["ImageNet"], KNOWN["pixels from 0 to 1"]
CLASSES = {"old": (0, 1), "new": (2, 3)}


def pixels(label: int, count: int, seed: int = 0) -> Tensor:
    """Stripes across or along, which is the class, in any colour; those of new classes are finer
    and in darker images."""
    random = torch.Generator().manual_seed(10 * seed + label)
    colour = 100 + 110 * torch.rand(count, 3, 1, 1, generator=random)
    wave = torch.cos(torch.arange(10) * (1.0 if label < 2 else 2.2)) * (40 if label < 2 else 25)
    stripes = wave[None, :].expand(10, 10) if label % 2 else wave[:, None].expand(10, 10)
    noise = 25 * torch.randn(count, 3, 10, 10, generator=random)
    return (colour - 40 * (label > 1) + stripes + noise).clamp(0, 255).to(torch.uint8)


def image_groups(normalised, seed=1, count=120):
    """Batches of each group, normalised by this mean and standard deviation."""
    view, batches = normalisation(*normalised), {}
    for name, labels in CLASSES.items():
        x = torch.cat([view(pixels(label, count, seed)) for label in labels])
        y = torch.tensor(labels).repeat_interleave(count)
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
        batches[name] = [(x[part], y[part]) for part in order.split(48)]
    return batches


def network(channels=3):
    torch.manual_seed(4)
    return nn.Sequential(
        *(nn.Conv2d(channels, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU()),
        *(nn.Conv2d(12, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)),
    )


def trained(normalised, *, steps=45, train=True):
    """A network trained on all classes at once; in evaluation mode, φ stays what it is."""
    net, data = network(), image_groups(normalised, seed=0)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    net.train(train)
    for step in range(steps):
        parts = [batches[step % len(batches)] for batches in data.values()]
        x, y = (torch.cat(part) for part in zip(*parts, strict=True))
        optimiser.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()
