"""How a model is made: fresh, for the first classes there are, or around a network that exists."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from bntricks.errors import InvalidOptions, UserError
from bntricks.methods import find, make
from bntricks.methods.build import build_learner
from bntricks.model.metadata import Metadata, Network, Preprocessing, Value
from bntricks.model.model import Model
from bntricks.model.samples import ClassSamples, gather
from bntricks.networks.options import NetworkOptions
from bntricks.recipes.options import TrainingOptions
from bntricks.streams import View
from bntricks.streams.tasks import channel_moments
from bntricks.training.checkpoint import versions
from bntricks.training.learner import Learner, identity
from bntricks.training.optimisers import OPTIMISERS
from bntricks.training.schedules import SCHEDULES

V = TypeVar("V", bound=Value)

IMAGE_SIZE = 32
CIFAR_STEM = 64
"""The largest side of images for which the ResNet's stem is that of CIFAR: at 224 pixels its maps
would cost 16 times as much as those of ImageNet's."""
METHOD = "er-even-bnt"
RATES = {"adam": 0.003, "adamw": 0.003, "sgd": 0.03}
"""The learning rate by default, the highest one where a schedule changes it."""


def create(
    images: Any,
    *,
    image_size: int = IMAGE_SIZE,
    width: int = 16,
    blocks: int = 1,
    stages: int = 4,
    augment: bool = True,
    seed: int = 0,
    device: str = "cpu",
    **choices: Any,
) -> Model:
    """A model for the classes of these images that has learned nothing yet, with a ResNet and the
    images' own normalisation. `choices` are those of `protocol`."""
    samples = images if isinstance(images, ClassSamples) else gather(images, size=image_size)
    x = samples.train.x
    if x.dtype != torch.uint8:
        raise UserError("a fresh model is made for uint8 images: adopt a network for other samples")
    metadata = describe(
        **protocol(**choices),
        seed=seed,
        network=checked(
            Network,
            channels=x.shape[1],
            width=width,
            blocks=blocks,
            stages=stages,
            stem="imagenet" if x.shape[-1] > CIFAR_STEM else "cifar",
        ),
        shape=tuple(x.shape[1:]),
        view=preprocessing(x, augment=augment),
    )
    assert metadata.network is not None
    name = {"cifar": "resnet", "imagenet": "resnet-imagenet"}[metadata.network.stem]
    return Model(build(metadata, name, len(samples.names), device), metadata)


def protocol(
    *,
    method: str = METHOD,
    memory: int = 500,
    lr: float | None = None,
    optimiser: str = "adamw",
    schedule: str = "one-cycle",
    even_batches: bool = True,
    batch: int = 64,
    memory_batch: int = 64,
    tasks: int | None = None,
    hyper: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, Any]:
    """How tasks are learned: the method by name, with its hyper-parameters. `memory` counts
    samples; `tasks` says how many tasks there will be, for methods that share out their memory in
    advance (GEM, A-GEM). The optimiser and the schedule of its learning rate are given by name, and
    are those of a good engineer, not the paper's: `docs/teaching.md` has the experiment."""
    recipe = make(method, **hyper)
    OPTIMISERS.find(optimiser), SCHEDULES.find(schedule)
    if recipe.joint:
        raise UserError(
            "it learns all tasks at once, after the last has come: choose another",
            option="method",
            value=method,
        )
    if recipe.averages:
        raise UserError(
            "a model's file has room for one network, and this method keeps slow copies of it: "
            "choose another",
            option="method",
            value=method,
        )
    if recipe.memory is not None and recipe.memory.needs_task_count and tasks is None:
        raise UserError(
            f"{method} shares out its memory in advance: say how many tasks there will be",
            option="tasks",
        )
    return {
        "versions": versions(),
        "method": method,
        "hyper": {**find(method).hyper(), **hyper},
        "lr": RATES.get(optimiser, RATES["sgd"]) if lr is None else lr,
        "optimiser": optimiser,
        "schedule": schedule,
        "even_batches": even_batches,
        "batch": batch,
        "memory_batch": memory_batch,
        "memory": memory,
        "tasks": tasks,
    }


def describe(**values: Any) -> Metadata:
    """What is known about a model to be."""
    return checked(Metadata, **values)


def checked(kind: type[V], **values: Any) -> V:
    """A part of a description; a value out of its range is said in a line."""
    try:
        return kind(**values)
    except ValidationError as error:
        raise InvalidOptions.of(error) from None


def build(
    metadata: Metadata,
    net: str | nn.Module,
    outputs: int,
    device: str | None,
    network: Mapping[str, Any] | None = None,
) -> Learner:
    """The learner described: around this network, or around a new one of this name, whose options
    are `network`, or else those described."""
    if network is None:
        known = metadata.network
        network = {} if known is None else known.model_dump(exclude={"channels", "stem"})
    described = metadata.model_dump(include=set(TrainingOptions.model_fields))
    return build_learner(
        metadata.method,
        metadata.hyper,
        TrainingOptions.of(**described, epochs=1),
        net=NetworkOptions.of(net=net, **network) if isinstance(net, str) else net,
        shape=metadata.shape,
        outputs=outputs,
        seed=metadata.seed,
        tasks=metadata.tasks,
        view=identity if metadata.view is None else View(**metadata.view.model_dump()),
        device=device,
    )


def preprocessing(x: Tensor, *, augment: bool) -> Preprocessing:
    """Normalisation by the moments of these images, and crops and flips of a fitting size."""
    if augment not in (True, False):
        raise UserError("it is either True or False", option="augment", value=repr(augment))
    augment, (mean, std) = bool(augment), channel_moments(x)
    return Preprocessing(mean=mean, std=std, pad=x.shape[-1] // 8 if augment else 0, flip=augment)


def today() -> str:
    return datetime.now(UTC).date().isoformat()
