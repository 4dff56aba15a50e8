"""How a model is made: new, for its first classes, or around an existing network."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bntricks.errors import UserError
from bntricks.methods import find, make
from bntricks.methods.build import build_learner
from bntricks.model.metadata import Metadata, Network, Preprocessing
from bntricks.model.model import Model
from bntricks.model.options import IMAGE_SIZE, NewModel, Protocol
from bntricks.model.samples import ClassSamples, gather
from bntricks.networks.options import NetworkOptions
from bntricks.recipes.options import TrainingOptions
from bntricks.streams.tasks import channel_moments
from bntricks.training.checkpoint import versions
from bntricks.training.learner import Learner, identity
from bntricks.training.optimisers import OPTIMISERS, default_of
from bntricks.training.schedules import SCHEDULES

CIFAR_STEM = 64
"""The largest side of images for which the ResNet's stem is that of CIFAR: at 224 pixels its maps
would cost 16 times as much as those of ImageNet's."""


def create(
    images: Any,
    *,
    image_size: int = IMAGE_SIZE,
    augment: bool = True,
    device: str = "cpu",
    **options: Any,
) -> Model:
    """Make a model for the classes of these images that has learned nothing yet, with a ResNet and
    the images' own normalisation. `options` are those of `NewModel`."""
    how = NewModel.of(**options)
    samples = images if isinstance(images, ClassSamples) else gather(images, size=image_size)
    x = samples.train.x
    if x.dtype != torch.uint8:
        raise UserError("a fresh model is made for uint8 images: adopt a network for other samples")
    stem: Literal["cifar", "imagenet"] = "imagenet" if x.shape[-1] > CIFAR_STEM else "cifar"
    shape = how.model_dump(include={"width", "blocks", "stages"})
    metadata = Metadata.of(
        **protocol(how),
        network=Network.of(channels=x.shape[1], stem=stem, **shape),
        shape=tuple(x.shape[1:]),
        view=preprocessing(x, augment=augment),
    )
    name = {"cifar": "resnet", "imagenet": "resnet-imagenet"}[stem]
    return Model(build(metadata, name, len(samples.names), device), metadata)


def protocol(how: Protocol) -> dict[str, Any]:
    """Make a model's description of its protocol. Methods that do not exist, or that no model can
    learn by, are refused."""
    recipe = make(how.method, **how.hyper)
    OPTIMISERS.find(how.optimiser), SCHEDULES.find(how.schedule)
    problem = None
    if recipe.joint:
        problem = "it learns all tasks at once, after the last has come"
    elif recipe.averages:
        problem = "a model's file has room for one network, and this method keeps slow copies of it"
    if problem is not None:
        raise UserError(f"{problem}: choose another", option="method", value=how.method)
    if recipe.memory is not None and recipe.memory.needs_task_count and how.tasks is None:
        raise UserError(
            f"{how.method} shares out its memory in advance: say how many tasks there will be",
            option="tasks",
        )
    return how.model_dump(include=set(Protocol.model_fields)) | {
        "versions": versions(),
        "hyper": {**find(how.method).hyper(), **how.hyper},
        "lr": how.lr or default_of(how.optimiser, "lr") or default_of("sgd", "lr"),
    }


def build(
    metadata: Metadata,
    net: str | nn.Module,
    outputs: int,
    device: str | None,
    network: Mapping[str, Any] | None = None,
) -> Learner:
    """Build the described learner, around this network or a new one."""
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
        view=identity if metadata.view is None else metadata.view.applied(),
        device=device,
    )


def preprocessing(x: Tensor, *, augment: bool) -> Preprocessing:
    """Normalise by the moments of these images, with crops and flips that fit their size."""
    if augment not in (True, False):
        raise UserError("it is either True or False", option="augment", value=repr(augment))
    augment, (mean, std) = bool(augment), channel_moments(x)
    return Preprocessing(mean=mean, std=std, pad=x.shape[-1] // 8 if augment else 0, flip=augment)
