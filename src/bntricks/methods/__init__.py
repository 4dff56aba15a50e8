"""Every method by name. A method is a function that returns a recipe. Its keyword arguments are its
hyper-parameters, with the paper's defaults; their annotations are the ranges.

    @method("er", title="ER")
    def er() -> Method: ...
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field, ValidationError, validate_call

from bntricks.errors import InvalidOptions, UserError
from bntricks.plugins.registry import Registry
from bntricks.recipes.language import Method
from bntricks.recipes.rewrite import bn_tricks

__all__ = ["Entry", "NotNegative", "entries", "find", "make", "method"]

NotNegative = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]  # within float32
BN_TRICKS = "Zhou et al. 2022"
ByStream = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A method: its name on the command line, its title in the paper, and its recipe's factory."""

    name: str
    title: str
    summary: str
    source: str
    """Whose it is, as a reference; empty if that is common knowledge."""
    factory: Callable[..., Method]
    by_stream: ByStream

    def hyper(self, stream: str | None = None) -> dict[str, float]:
        """Return the hyper-parameters with their defaults on this stream."""
        own = self.by_stream.get(stream or "", {})
        parameters = inspect.signature(self.factory).parameters
        return {n: own.get(n, p.default) for n, p in parameters.items()}


METHODS: Registry[Entry] = Registry("method", home=__name__, group="bntricks.methods")
entries = METHODS.entries
find = METHODS.find


def method(
    name: str,
    *,
    title: str,
    source: str = "",
    bnt: bool = False,
    by_stream: ByStream = MappingProxyType({}),
) -> Callable[[Callable[..., Method]], Callable[..., Method]]:
    """Register a recipe, whose docstring says what it is and `source` whose. With `bnt`, its BN
    Tricks form is registered as `<name>-bnt` too."""

    def register(factory: Callable[..., Method]) -> Callable[..., Method]:
        checked = validate_call(factory)
        summary = (inspect.getdoc(factory) or "").split("\n")[0]
        METHODS.add(name, Entry(name, title, summary, source, checked, by_stream))
        if bnt:

            @wraps(checked)
            def tricked(**hyper: float) -> Method:
                return bn_tricks(checked(**hyper))

            note = f"{title} with BN Tricks."
            both = f"{source} with {BN_TRICKS}" if source else BN_TRICKS
            entry = Entry(f"{name}-bnt", f"{title}-BNT", note, both, tricked, by_stream)
            METHODS.add(entry.name, entry)
        return factory

    return register


def make(name: str, **hyper: Any) -> Method:
    """Make the recipe of this name with these hyper-parameters."""
    entry = find(name)
    known = entry.hyper()
    for key in hyper:
        if key not in known:
            listed = ", ".join(f"{own} (default {value:g})" for own, value in known.items())
            raise UserError(
                f"{name} has no such hyper-parameter: it has {listed or 'none'}", option=key
            )
    try:
        return entry.factory(**hyper)
    except ValidationError as error:
        raise InvalidOptions.of(error) from None


def same_recipe(name: str, hyper: Mapping[str, float]) -> list[str]:
    """List other names of the same recipe."""
    return [other for other in names_of(make(name, **hyper), hyper) if other != name]


def names_of(recipe: Method, hyper: Mapping[str, float]) -> list[str]:
    """List every name under which these hyper-parameters make this recipe."""
    names = []
    for entry in entries().values():
        if entry.hyper().keys() == hyper.keys():
            with suppress(ValidationError):  # narrower range
                if entry.factory(**hyper) == recipe:
                    names.append(entry.name)
    return names
