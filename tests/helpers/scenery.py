"""The names that a page's Python takes for granted: networks, loaders, folders of images. Each
page's are made in the working folder, and are as small as they can be."""

from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bntricks import Batch, Memory, View
from bntricks.networks.backbones import BACKBONES
from helpers.backbones import tiny
from helpers.colours import COLOURS, pictures, write_folder
from helpers.own_code import EXAMPLE


def readme():
    photos()
    Path("a.jpg").write_bytes(Path("photos/new/owl/00.jpg").read_bytes())
    memory = Memory(20, insertion=torch.Generator(), sampling=torch.Generator())
    memory.add(Batch(inputs(8), torch.arange(8) % 2))
    net = convolutional()
    return {
        "net": net,
        "optimiser": torch.optim.SGD(net.parameters(), lr=0.03),
        "loader": [(inputs(8), torch.arange(8) % 2) for _ in range(2)],
        "view": View(mean=(0.5,) * 3, std=(0.25,) * 3),
        "memory": memory,
        "current": Batch(inputs(8), torch.arange(8) % 2),
        "new": [1],
        "old": [0],
        "cross_entropy": cross_entropy,
        "old_loader": batches(0),
        "new_loader": batches(1),
    }


def getting_started():
    x = torch.cat([torch.from_numpy(pictures(colour)) for colour in list(COLOURS)[:4]])
    y = torch.arange(4).repeat_interleave(12)
    return {"x_train": x, "y_train": y, "x_test": x, "y_test": y}


def own_code():
    Path("my.py").write_bytes(EXAMPLE.read_bytes())
    return {}


def doctor():
    return {"net": convolutional(), "old_loader": batches(0), "new_loader": batches(1)}


def your_model():
    photos()
    for name in ("a.jpg", "b.jpg"):
        Path(name).write_bytes(Path("photos/new/owl/00.jpg").read_bytes())
    BACKBONES.entries()["efficientnet-lite0"] = tiny  # which an extra installs
    x = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
    return {"net": convolutional(), "build": convolutional, "x": x, "unknown_images": x}


def own_loop():
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    loader = [(torch.randn(16, 5), torch.arange(16) % 2) for _ in range(4)]
    later = [(x, y + 2) for x, y in loader]
    return {
        "net": net,
        "optimiser": torch.optim.SGD(net.parameters(), lr=0.03),
        "loader": loader,
        "tasks": [([0, 1], loader), ([2, 3], later)],
        "balanced_batches": [torch.randn(16, 5) for _ in range(2)],
        "x_test": torch.randn(5, 5),
        "epochs": 101,
    }


def own_network():
    class Pair(nn.Module):
        """A network that does not return scores alone."""

        def __init__(self):
            super().__init__()
            self.net = convolutional()

        def forward(self, x):
            return self.net(x), x

    old, new = list(COLOURS)[:2], list(COLOURS)[2:4]
    return {
        "trained": convolutional(),
        "pair": Pair(),
        "old_images": dict(zip(("cat", "dog"), map(pictures, old), strict=True)),
        "new_images": dict(zip(("owl", "fox"), map(pictures, new), strict=True)),
        "photo_view": View(mean=(0.5,) * 3, std=(0.25,) * 3),
        "x": pictures(new[0]),
        "old_batches": batches(0),
        "new_batches": batches(1),
    }


def convolutional():
    """For colour images of any size, and two classes."""
    return nn.Sequential(
        *(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
    )


def inputs(count):
    return torch.randn(count, 3, 8, 8)


def batches(label):
    return [(inputs(16) + label, torch.full((16,), label)) for _ in range(2)]


def photos():
    """photos/old/cat and dog, photos/new/owl and fox."""
    homes = ("old/cat", "old/dog", "new/owl", "new/fox")
    for colour, home in zip(COLOURS, homes, strict=False):
        folder = Path("photos") / Path(home).parent
        write_folder(folder, [colour])
        (folder / colour).rename(Path("photos") / home)


SCENERY = {  # the other pages stand on their own
    "README.md": readme,
    "docs/README.md": readme,
    "docs/getting-started.md": getting_started,
    "docs/doctor.md": doctor,
    "docs/your-model.md": your_model,
    "docs/own-loop.md": own_loop,
    "docs/own-network.md": own_network,
    "docs/own-code.md": own_code,
}
