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

from bntricks.registry import Registry

Norm = Callable[..., nn.Module]

NORMS: Registry[Norm] = Registry("normalisation", home=__name__)


@dataclass(frozen=True, slots=True)
class About:
    """What a reader should know about a scheme."""

    title: str
    formula: str = ""
    shares: str = ""
    """The values that are normalised together."""
    cost: str = ""


ABOUT: dict[str, About] = {}
"""By the scheme's name. A scheme may do without."""


def scheme(
    name: str, *, title: str, formula: str, shares: str, cost: str
) -> Callable[[Norm], Norm]:
    """`NORMS.named` for schemes that explain themselves."""

    def register(norm: Norm) -> Norm:
        ABOUT[name] = About(title, formula, shares, cost)
        return NORMS.add(name, norm)

    return register


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
