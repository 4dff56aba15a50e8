"""Going on with a network that was trained elsewhere: its classes get names, and old images fill
the memory as the method would have kept them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from bntricks.batch import Batch
from bntricks.errors import UserError
from bntricks.model.create import IMAGE_SIZE, check_samples, described, equip, protocol, today
from bntricks.model.metadata import Look, Taught
from bntricks.model.samples import Material, check_name, gather
from bntricks.networks.resnet import classifier
from bntricks.norm import mode
from bntricks.recipes.language import Lesson
from bntricks.recipes.policies import GradientGreedy, Herding, Outputs, PerTask, Reservoir, stored
from bntricks.seeds import Generators
from bntricks.streams import Images, View
from bntricks.training.learner import Learner
from bntricks.training.snapshot import previous
from bntricks.training.step import State


def adopt(
    net: nn.Module,
    *,
    classes: Sequence[str],
    memory: Any = None,
    test: Any = None,
    capacity: int = 500,
    view: View | None = None,
    image_size: int = IMAGE_SIZE,
    seed: int = 0,
    device: str = "cpu",
    **wishes: Any,
) -> Learner:
    """A learner that goes on with a trained network, of which it takes a copy.

    `classes` name the outputs of its last linear layer, in order. `memory` are images of these
    classes to rehearse, of which `capacity` are kept, the same number of each class as far as
    there are; `test` are others, which it was not trained on, to measure what it still knows.
    Both are a folder of class folders, a mapping from class names to samples, or a pair of
    samples and class names. `view` is how the network was given images, as
    `View(mean, std, pad=4, flip=True)`; without one, samples must be network inputs already.
    `wishes` are those of `protocol`.
    """
    names = _checked_names(net, classes)
    old, aside = (
        None if given is None else _in_order(gather(given, size=image_size), names)
        for given in (memory, test)
    )
    sample = next((images.x for images in (old, aside) if images is not None), None)
    known = Taught(classes=names, images=0, epochs=0, date=today())
    about = described(
        **protocol(memory=capacity, **wishes),
        seed=seed,
        network=None,
        shape=(3, image_size, image_size) if sample is None else tuple(sample.shape[1:]),
        view=None if view is None else Look(**asdict(view)),
        taught=(known,),
    )
    learner = equip(copy.deepcopy(net), about, Generators.of(seed), device)
    learner.tests = aside
    learner.state.lesson = Lesson(1, tuple(range(len(names))))
    if learner.memory is not None:
        if old is None:
            raise UserError(
                f"{about.method} rehearses old images: give some as memory=, or choose a method "
                "without a memory, such as lwf"
            )
        check_samples(learner, old.x)
        _remember(learner.state, Batch(old.x.to(learner.device), old.y))
    if learner.method.teacher == "previous":
        learner.state.teacher = previous(learner.net)
    learner.net.eval()
    return learner


def _remember(state: State, old: Batch) -> None:
    """Fill the memory with old samples, as the method keeps them."""
    policy, memory = state.method.memory, stored(state)
    if isinstance(policy, Herding | PerTask):
        policy.update(state, replace(old, ids=torch.arange(len(old))))
        return
    rows = _evenly(old.y, memory.capacity, memory.insertion)
    chosen = Batch(old.x[rows.to(old.x.device)], old.y[rows], ids=rows)
    if isinstance(policy, Outputs) or (isinstance(policy, Reservoir) and policy.keep == "logits"):
        with mode(state.net, training=False), torch.no_grad():
            parts = [state.net(state.view(part, None)) for part in torch.split(chosen.x, 256)]
        chosen = replace(chosen, logits=torch.cat(parts).float())
    memory.append(chosen, task=state.lesson.t)
    memory.offered = memory.filled
    if isinstance(policy, GradientGreedy):
        memory.scores[: memory.filled] = 1.0  # neither like nor unlike the others


def _evenly(y: Tensor, count: int, generator: Generator) -> Tensor:
    """Random rows, the same number of each class as far as there are, in random order."""
    order = torch.randperm(len(y), generator=generator)
    turn = torch.empty(len(y), dtype=torch.int64)  # the how-manieth of its class a row is
    for label in set(y.tolist()):
        own = order[y[order] == label]
        turn[own] = torch.arange(len(own))
    first = order[turn[order].argsort(stable=True)][:count]
    return first[torch.randperm(len(first), generator=generator)]


def _checked_names(net: nn.Module, classes: Sequence[str]) -> tuple[str, ...]:
    names = tuple(classes)
    for name in names:
        check_name(name)
    if len(set(names)) < len(names):
        raise UserError(f"classes name {_twice(names)!r} twice: give each output a name of its own")
    try:
        outputs = classifier(net).out_features
    except ValueError as error:
        raise UserError(f"cannot adopt this {type(net).__name__}: {error}") from None
    if len(names) != outputs:
        raise UserError(
            f"there are {len(names)} class names, and the network's last linear layer has "
            f"{outputs} outputs: name each of them, in order"
        )
    return names


def _twice(names: Sequence[str]) -> str:
    return next(name for k, name in enumerate(names) if name in names[:k])


def _in_order(material: Material, names: Sequence[str]) -> Images:
    """Old images, labelled by the network's outputs."""
    strange = [name for name in material.names if name not in names]
    if strange:
        raise UserError(
            f"{strange[0]!r} is no class the network knows: it knows {', '.join(map(repr, names))}"
        )
    place = torch.tensor([names.index(name) for name in material.names])
    return Images(material.train.x, place[material.train.y])
