"""Normalisation schemes by name, one a file.

A scheme is a function from channels to a layer. Its keyword arguments are its knobs, with the
authors' defaults: `groups`, `momentum`, `kappa` and `lambda_norm` are options of a run, `tasks` and
`as_published` are given by the run.

    @NORMS.named("gn")
    def group_norm(channels, *, groups=None): ...
"""

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
    """The description of a scheme, and its changes of the rest of a network."""

    title: str
    formula: str = ""
    shares: str = ""
    """The values that are normalised together."""
    cost: str = ""
    network: Callable[[nn.Module], nn.Module] = lambda net: net
    """Changes the rest of a network."""


SCHEMES: dict[str, Scheme] = {}
"""Descriptions by name; a function in `NORMS` may lack one."""


def scheme(name: str, **about: Any) -> Callable[[Norm], Norm]:
    """Register a scheme in `NORMS`, with the fields of its `Scheme`."""

    def register(norm: Norm) -> Norm:
        NORMS.add(name, norm)
        SCHEMES[name] = Scheme(**about)
        return norm

    return register


def describe(name: str) -> Scheme:
    """Return the description of the scheme of this name."""
    NORMS.find(name)
    return SCHEMES.get(name, Scheme(title=name))


def knobs(name: str) -> dict[str, Any]:
    """Return the knobs of a scheme, with their defaults."""
    parameters = list(inspect.signature(NORMS.find(name)).parameters.values())
    return {each.name: each.default for each in parameters[1:]}


def bound(name: str, **values: Any) -> Norm:
    """Return the scheme of this name with these values of its knobs; None means the default."""
    norm = NORMS.find(name)
    own = {key: values[key] for key in knobs(name) if values.get(key) is not None}
    return partial(norm, **own) if own else norm


def use_of_phi(name: str) -> str:
    """Say what training does with φ: there is none, it is moved, or moved and read."""
    layer = bound(name, tasks=1)(64)
    if not layers(layer):
        return "none"
    return "moved and read" if getattr(layer, "reads_phi", False) else "moved"


def summary(name: str) -> str:
    """Return the first line of a scheme's docstring."""
    return (inspect.getdoc(NORMS.find(name)) or "").split("\n")[0]
