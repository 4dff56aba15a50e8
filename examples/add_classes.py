"""Add classes to a trained network: plain PyTorch before, a few old images, and one call."""

import torch
from sklearn.datasets import load_digits
from torch import nn

from bntricks import Model, View

torch.manual_seed(0)
torch.set_num_threads(1)
view = View(mean=(0.3,), std=(0.38,), pad=1)  # how the network is given images


def build(classes: int = 5) -> nn.Module:
    """Any network that has BatchNorm and ends in a linear layer will do."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        nn.Linear(128, classes),
    )


digits = load_digits()
images = torch.tensor(digits.images * 255 / 16).round().to(torch.uint8)[:, None]
labels = torch.tensor(digits.target)
images_of = {str(digit): images[labels == digit] for digit in range(10)}
train = {name: x[:130] for name, x in images_of.items()}
test = {name: x[130:] for name, x in images_of.items()}
old, new = [str(digit) for digit in range(5)], [str(digit) for digit in range(5, 10)]

# What exists already: a network that somebody trained on the digits 0 to 4.
net = build()
optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
x = torch.cat([train[name] for name in old])
y = torch.arange(5).repeat_interleave(torch.tensor([len(train[name]) for name in old]))
for _ in range(8):
    for rows in torch.randperm(len(y)).split(32):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(view(x[rows])), y[rows]).backward()
        optimiser.step()

# What is new: the model keeps 20 old images of each class and learns the digits 5 to 9.
model = Model.adopt(
    net,
    classes=old,
    memory={name: train[name][:20] for name in old},
    test={name: test[name] for name in old},
    view=view,
)
learned = model.learn({name: train[name] for name in new}, epochs=15)
print(f"digits 0-4: {learned.tasks[0].before:.1f}% before, {learned.tasks[0].after:.1f}% after")
print(f"digits 5-9: {learned.tasks[1].after:.1f}%")

# One file, which another process loads with the function that builds the network.
model.save("digits.safetensors")
again = Model.load("digits.safetensors", net=build)
first = torch.stack([x[0] for x in test.values()])
print("the first image of each digit is:", *again.predict(first))
