"""How a learner with class names is made: fresh, for the first classes there are, or around a
network that exists already."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from bntricks.errors import UserError
from bntricks.methods import find, make
from bntricks.model.metadata import About, Look
from bntricks.model.samples import Material, samples
from bntricks.networks.resnet import ResNet
from bntricks.recipes.policies import PerTask
from bntricks.runs.config import explain
from bntricks.seeds import Generators, construction
from bntricks.streams import Task, View
from bntricks.streams.tasks import first_task_moments
from bntricks.training.learner import Learner, plain

IMAGE_SIZE = 32
METHOD = "er-bnt"


def fresh(
    material: Material,
    *,
    width: int = 16,
    blocks: int = 2,
    stages: int = 4,
    augment: bool = True,
    seed: int = 0,
    device: str = "cpu",
    **wishes: Any,
) -> Learner:
    """A learner for these classes that has learned nothing yet, with a ResNet and their images'
    normalisation. `wishes` are those of `protocol`."""
    if material.train.x.dtype != torch.uint8:
        raise UserError("a fresh model is made for uint8 images: adopt a network for other samples")
    mean, std = first_task_moments([Task((), material.train, material.test)])
    pad = material.shape[-1] // 8 if augment else 0
    network = {"channels": material.shape[0], "width": width, "blocks": blocks, "stages": stages}
    about = described(
        **protocol(**wishes),
        seed=seed,
        network=network,
        shape=material.shape,
        view=Look(mean=mean, std=std, pad=pad, flip=augment),
    )
    generators = Generators.of(seed)
    with construction(generators.init):
        net = ResNet(len(material.names), **network)
    return equip(net, about, generators, device)


def protocol(
    *,
    method: str = METHOD,
    memory: int = 500,
    lr: float = 0.03,
    batch: int = 32,
    memory_batch: int = 32,
    tasks: int | None = None,
    hyper: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, Any]:
    """How tasks are learned: the method by name, with its hyper-parameters. `tasks` says how many
    there will be, for methods that share out their memory in advance (GEM, A-GEM)."""
    made = make(method, **hyper)
    if made.joint:
        raise UserError(
            f"{method} learns all tasks at once, when the last has come: choose another"
        )
    if isinstance(made.memory, PerTask) and tasks is None:
        raise UserError(f"{method} shares out its memory in advance: say how many tasks, --tasks N")
    return {
        "versions": {"bntricks": version("bntricks"), "torch": str(torch.__version__)},
        "method": method,
        "hyper": {**find(method).hyper(), **hyper},
        "lr": lr,
        "batch": batch,
        "memory_batch": memory_batch,
        "memory": memory,
        "tasks": tasks,
    }


def described(**values: Any) -> About:
    """What is known about a learner to be; a value out of its range is said in a line."""
    try:
        return About(**values)
    except ValidationError as error:
        raise UserError(explain(error)) from None


def equip(net: nn.Module, about: About, generators: Generators, device: str) -> Learner:
    """A network with everything that goes with it, as described."""
    if about.network is not None:
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    learner = Learner(
        net,
        make(about.method, **about.hyper),
        memory=about.memory,
        lr=about.lr,
        seed=generators,
        view=plain if about.view is None else View(**about.view.model_dump()),
        device=device,
        batch=about.batch,
        memory_batch=about.memory_batch,
        tasks=about.tasks,
    )
    learner.about = about
    return learner


def checked_samples(learner: Learner, given: Any) -> Tensor:
    """Arrays, tensors or paths of images as samples, which must be what the learner takes."""
    assert learner.about is not None
    x = samples(given, learner.about.shape[-1])
    check_samples(learner, x)
    return x


def check_samples(learner: Learner, x: Tensor) -> None:
    """Samples must be what the learner was made for."""
    assert learner.about is not None
    shape = learner.about.shape
    if tuple(x.shape[1:]) != shape:
        raise UserError(f"a sample is {list(x.shape[1:])}, the model takes {list(shape)}")
    if (x.dtype == torch.uint8) != (learner.about.view is not None):
        kind = "uint8 images" if learner.about.view else "floats, which are inputs as they are"
        raise UserError(
            f"samples are {str(x.dtype).removeprefix('torch.')}, the model takes {kind}: convert "
            "them, or adopt the network with view=View(mean, std) to give it images"
        )


def today() -> str:
    return datetime.now(UTC).date().isoformat()
