"""Pretrained networks by name. An entry makes the network, and describes how its weights were shown
images and their licence."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from bntricks.errors import UserError
from bntricks.files import shown
from bntricks.options import Interpolation
from bntricks.plugins.registry import Registry


@dataclass(frozen=True, slots=True)
class ImageInput:
    """The square images that a network takes, and the normalisation of pixels in [0, 1]."""

    size: int | None
    """The side. None if nothing says it."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: float = 1.0
    """The share of the centre square's side that is kept."""
    interpolation: Interpolation = "area"


@dataclass(frozen=True, slots=True)
class Backbone:
    """A pretrained network, whose last linear layer is replaced."""

    net: nn.Module
    input: ImageInput | None = None
    """None if the weights do not say: then the user has to."""
    licence: str = "unknown"


Builder = Callable[[bool], Backbone]
"""Makes the network, with its trained weights if it is given True. A model file has its own."""

BACKBONES: Registry[Builder] = Registry(
    "backbone", home="bntricks.networks.backbones", group="bntricks.backbones"
)
LIBRARIES: dict[str, Callable[[str, bool], Backbone]] = {}
"""By prefix, libraries of networks: how one of theirs is made from its name."""


def find_backbone(name: str) -> Builder:
    """Find the maker of this backbone: an entry of the registry, or LIBRARY:NAME. Names never say
    where code or weights are fetched from."""
    entries = BACKBONES.entries()
    library, _, own = name.partition(":")
    if name in entries:
        return entries[name]
    if library not in LIBRARIES:
        try:
            return BACKBONES.find(name)
        except UserError as error:
            prefixes = " or ".join(f"{library}:NAME" for library in LIBRARIES)
            raise UserError(f"{error.message}; or give {prefixes}", option="backbone") from None
    if not re.fullmatch(r"\w[\w.-]*", own):
        raise UserError(
            f"it is {library}: and the name of a network there, such as {library}:resnet50",
            option="backbone",
            value=shown(name),
        )
    return partial(LIBRARIES[library], own)
