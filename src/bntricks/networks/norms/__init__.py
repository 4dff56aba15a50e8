"""What normalises a network, by name, one scheme a file.

A scheme is a function from channels to a layer. Its keyword arguments are its knobs, with the
authors' defaults: `groups`, `momentum`, `kappa` and `lambda_norm` are options of a run, and `tasks`
and `as_published` are what a run knows besides.

    @NORMS.named("gn")
    def group_norm(channels, *, groups=None): ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from bntricks.norm import layers
from bntricks.plugins.registry import Registry

Norm = Callable[..., nn.Module]

NORMS: Registry[Norm] = Registry("normalisation", home=__name__, group="bntricks.norms")


@dataclass(frozen=True, slots=True)
class Scheme:
    """What there is to know about a scheme besides its layers."""

    title: str
    formula: str = ""
    shares: str = ""
    """The values that are normalised together."""
    cost: str = ""
    network: Callable[[nn.Module], nn.Module] = lambda net: net
    """What it does to the rest of a network."""


SCHEMES: dict[str, Scheme] = {}
"""By name. A function in `NORMS` need not be one of them."""


def scheme(name: str, **about: Any) -> Callable[[Norm], Norm]:
    """`NORMS.named` for a scheme that explains itself by the fields of `Scheme`."""

    def register(norm: Norm) -> Norm:
        NORMS.add(name, norm)
        SCHEMES[name] = Scheme(**about)
        return norm

    return register


def describe(name: str) -> Scheme:
    """What is known about the scheme of this name."""
    NORMS.find(name)
    return SCHEMES.get(name, Scheme(title=name))


def knobs(name: str) -> dict[str, Any]:
    """The knobs of a scheme, with their defaults."""
    parameters = list(inspect.signature(NORMS.find(name)).parameters.values())
    return {each.name: each.default for each in parameters[1:]}


def bound(name: str, **values: Any) -> Norm:
    """The scheme of this name with these values of those knobs that it has; None leaves it its
    default."""
    norm = NORMS.find(name)
    own = {key: values[key] for key in knobs(name) if values.get(key) is not None}
    return partial(norm, **own) if own else norm


def use_of_phi(name: str) -> str:
    """What training does with φ: a scheme has none, moves it, or moves and reads it."""
    layer = bound(name, tasks=1)(64)
    if not layers(layer):
        return "none"
    return "moved and read" if getattr(layer, "reads_phi", False) else "moved"


def summary(name: str) -> str:
    """The first line of what a scheme's function says about itself."""
    return (inspect.getdoc(NORMS.find(name)) or "").split("\n")[0]
