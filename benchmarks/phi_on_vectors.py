"""Where BN Tricks stops helping: ER and ER-BNT on vectors, under their own φ and under others.

    python benchmarks/phi_on_vectors.py                 # half an hour of one core
    python benchmarks/phi_on_vectors.py --only base layers

Learns scikit-learn's digits, as 64 features, by a perceptron with BatchNorm, and changes one thing
at a time. Each row has the accuracy on all ten classes, the mean of the seeds: of ER and of ER-BNT
as they are, and of the same parameters under other running statistics: `true` are the moments of
all training samples, `stored` those of the memory. ER-BNT trains as ER-Cur+Buf does, so its columns
are also those of separate forwards under these φ. `newest` is the accuracy on the newest task's
classes under a method's own φ, and `shift` is how far their mean lies from that of all classes at
the input of a BatchNorm layer, in standard deviations of all, the root mean square over channels.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from statistics import mean

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from bntricks import Learner, make, moments, swapped
from bntricks.batch import shuffled
from bntricks.cli.console import markdown


@dataclass(frozen=True)
class Setting:
    """One way to train."""

    layers: int = 2
    width: int = 64
    memory: int = 50
    batch: int = 32
    epochs: int = 30
    tasks: int = 5
    first: bool = True
    """Whether BatchNorm normalises the features themselves; else they are standardised once."""
    convolutional: bool = False
    """Whether the digits are images, for convolutions instead of hidden layers."""


BASE = Setting()
SETTINGS = {
    "base": {"base": BASE},
    "first": {"features standardised once": replace(BASE, first=False)},
    "layers": {f"{n} hidden layers": replace(BASE, layers=n) for n in (1, 4)},
    "width": {f"width {n}": replace(BASE, width=n) for n in (16, 256)},
    "steps": {f"{n} epochs": replace(BASE, epochs=n) for n in (5, 60)},
    "batch": {f"batches of {n}": replace(BASE, batch=n) for n in (16, 128)},
    "memory": {f"memory {n}": replace(BASE, memory=n) for n in (200, 500)},
    "tasks": {f"{n} tasks": replace(BASE, tasks=n) for n in (10, 2)},
    "images": {
        "8×8 images, convolutions": replace(BASE, first=False, convolutional=True),
    },
}
READ = ("own φ", "newest", "true φ", "stored φ", "shift")


def network(how: Setting) -> nn.Sequential:
    """Make the perceptron."""
    parts: list[nn.Module] = [nn.BatchNorm1d(64)] if how.first else []
    inputs = 64
    if how.convolutional:
        parts, inputs = [nn.Unflatten(1, (1, 8, 8))], 1
        for width in (16, 32):
            convolution = nn.Conv2d(inputs, width, 3, 1, 1, bias=False)
            parts += [convolution, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
            inputs = width
        return nn.Sequential(*parts, nn.Flatten(), nn.Linear(4 * inputs, 10))
    for _ in range(how.layers):
        parts += [nn.Linear(inputs, how.width, bias=False), nn.BatchNorm1d(how.width), nn.ReLU()]
        inputs = how.width
    return nn.Sequential(*parts, nn.Linear(inputs, 10))


def trained(method: str, how: Setting, x: Tensor, y: Tensor, seed: int) -> Learner:
    """Learn all classes, task after task."""
    torch.manual_seed(seed)
    learner = Learner(
        network(how),
        make(method),
        memory=how.memory,
        batch=how.batch,
        memory_batch=how.batch,
        lr=0.03,
        seed=seed,
    )
    for classes in torch.arange(10).tensor_split(how.tasks):
        rows = torch.isin(y, classes).nonzero().flatten()
        learner.begin(classes.tolist(), x[rows], y[rows])
        steps = how.epochs * len(list(shuffled(len(rows), how.batch, torch.Generator())))
        for _ in range(how.epochs):
            for ids in shuffled(len(rows), how.batch, learner.generators.order):
                learner.observe(x[rows[ids]], y[rows[ids]], horizon=steps)
                steps -= 1
        learner.end(x[rows], y[rows])
    return learner


def readings(method: str, how: Setting, seed: int) -> list[float]:
    """Return the accuracy under each φ, and that on the newest classes under the method's own."""
    x, y = (torch.from_numpy(part) for part in load_digits(return_X_y=True))
    x = x.float()
    if not how.first:
        x = (x - x.mean(0)) / x.std(0).clamp_min(0.1)
    train, test = train_test_split(torch.arange(len(y)), random_state=seed, stratify=y)
    learner = trained(method, how, x[train], y[train], seed)
    memory = learner.memory
    assert memory is not None
    assert memory.x is not None
    newest = torch.isin(y[test], torch.tensor(learner.state.lesson.new))

    def right() -> Tensor:
        return 100 * (learner.predict(x[test]) == y[test]).double()

    found = [right().mean().item(), right()[newest].mean().item()]
    for batch in (x[train], memory.x[: len(memory)]):
        with swapped(learner.net, moments(learner.net, [batch])):
            found.append(right().mean().item())
    taught = torch.isin(y[train], torch.tensor(learner.state.lesson.new))
    return [*found, shift(learner.net, x[train], taught)]


@torch.inference_mode()
def shift(net: nn.Module, x: Tensor, newest: Tensor) -> float:
    """Return how far the newest samples' mean lies from that of all at the input of a BatchNorm
    layer, in standard deviations of all: the root mean square over channels of all layers."""
    shifts: list[Tensor] = []

    def look(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        values = inputs[0].flatten(2) if inputs[0].dim() > 2 else inputs[0][..., None]
        apart = values[newest].mean((0, 2)) - values.mean((0, 2))
        shifts.append(apart / (values.var((0, 2)) + 1e-5).sqrt())

    norms = [layer for layer in net.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    handles = [layer.register_forward_pre_hook(look) for layer in norms]
    net.eval()(x)
    for handle in handles:
        handle.remove()
    return torch.cat(shifts).square().mean().sqrt().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--methods", nargs="+", default=["er", "er-bnt"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="fewer, for a trial")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for group in arguments.only:
        for name, how in SETTINGS[group].items():
            setting = replace(how, epochs=arguments.epochs or how.epochs)
            numbers = []
            for method in arguments.methods:
                each = [readings(method, setting, seed) for seed in range(arguments.seeds)]
                *accuracies, shift = (mean(column) for column in zip(*each, strict=True))
                numbers += [*(f"{value:.1f}" for value in accuracies), f"{shift:.2f}"]
            rows.append([name, *numbers])
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    titles = [f"{method}, {read}" for method in arguments.methods for read in READ]
    print(markdown(["", *titles], rows))


if __name__ == "__main__":
    main()
