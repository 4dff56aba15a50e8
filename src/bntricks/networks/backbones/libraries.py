"""The networks of timm and torchvision, if these are installed. Weights come from their caches, or
are downloaded by them. How images are prepared is what they say of the weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from bntricks.errors import UserError
from bntricks.networks.backbones import LIBRARIES, Backbone, ImageInput
from bntricks.networks.imported import summary


def from_timm(name: str, trained: bool) -> Backbone:
    """Make a network of timm, with what its `pretrained_cfg` says."""
    with _library("timm", name) as timm:
        net = timm.create_model(name, pretrained=trained)
        about = net.pretrained_cfg
        *_, height, width = about["input_size"]
        if height != width:
            raise ValueError(f"its images are {height} by {width}, not square")
        own = ImageInput(
            size=height,
            mean=tuple(about["mean"]),
            std=tuple(about["std"]),
            crop=about["crop_pct"],
            interpolation=about["interpolation"],
        )
        return Backbone(net, own, about.get("license") or "unknown")


def from_torchvision(name: str, trained: bool) -> Backbone:
    """Make a network of torchvision, with the transforms of its default weights."""
    with _library("torchvision", name) as torchvision:
        models = torchvision.models
        if name not in models.list_models(module=models):  # detectors download parts of themselves
            raise ValueError("there is no classifier of this name")
        weights = models.get_model_weights(name).DEFAULT
        net = models.get_model(name, weights=weights if trained else None)
        how = weights.transforms()
        (size,), (resized,) = how.crop_size, how.resize_size
        own = ImageInput(
            size=size,
            mean=tuple(how.mean),
            std=tuple(how.std),
            crop=size / resized,
            interpolation=how.interpolation.value,
        )
        return Backbone(net, own, "as torchvision states for these weights")


LIBRARIES |= {"timm": from_timm, "torchvision": from_torchvision}


@contextmanager
def _library(name: str, network: str) -> Iterator[Any]:
    """Import the library, and turn any failure within into one line."""
    option = {"option": "backbone", "value": f"{name}:{network}"}
    try:
        library = import_module(name)
    except Exception as error:  # RuntimeError, if it was built for another torch
        problem = f"{name} cannot be imported ({summary(error)}): pip install {name}"
        raise UserError(problem, **option) from None
    try:
        yield library
    except Exception as error:
        raise UserError(
            f"{name} does not make it ({summary(error)}): check its name, and that its weights are "
            "in the cache or can be downloaded, or give them as a file",
            remedy="weights",
            **option,
        ) from error
