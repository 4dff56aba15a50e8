"""Every method by name. A method is a function that returns a recipe; its keyword arguments are
its hyper-parameters, with the paper's defaults, and their annotations are their ranges.

    @method("er", title="ER")
    def er() -> Method: ...
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field, ValidationError, validate_call

from bntricks.errors import UserError
from bntricks.recipes.language import Method
from bntricks.recipes.rewrite import bn_tricks

__all__ = ["Entry", "NotNegative", "entries", "make", "method"]

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ByStream = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A method's name on the command line, its name in the paper, and how to make it."""

    name: str
    title: str
    summary: str
    factory: Callable[..., Method]
    by_stream: ByStream

    def hyper(self, stream: str | None = None) -> dict[str, float]:
        """Hyper-parameters with their defaults, which a stream may have of its own."""
        own = self.by_stream.get(stream or "", {})
        parameters = inspect.signature(self.factory).parameters
        return {n: own.get(n, p.default) for n, p in parameters.items()}


_ENTRIES: dict[str, Entry] = {}


def method(
    name: str, *, title: str, bnt: bool = False, by_stream: ByStream = MappingProxyType({})
) -> Callable[[Callable[..., Method]], Callable[..., Method]]:
    """Register a recipe. With `bnt`, its BN Tricks form is registered as `<name>-bnt` too."""

    def register(factory: Callable[..., Method]) -> Callable[..., Method]:
        checked = validate_call(factory)
        summary = (inspect.getdoc(factory) or "").split("\n")[0]
        _ENTRIES[name] = Entry(name, title, summary, checked, by_stream)
        if bnt:

            @wraps(checked)
            def tricked(**hyper: float) -> Method:
                return bn_tricks(checked(**hyper))

            note = f"{title} with BN Tricks."
            entry = Entry(f"{name}-bnt", f"{title}-BNT", note, tricked, by_stream)
            _ENTRIES[entry.name] = entry
        return factory

    return register


@cache
def _load() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def entries() -> dict[str, Entry]:
    """All methods, in the order of their files."""
    _load()
    return _ENTRIES


def find(name: str) -> Entry:
    """The method of this name."""
    if name not in entries():
        close = difflib.get_close_matches(name, entries(), n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UserError(f"unknown method {name!r}: {hint}there are {', '.join(entries())}")
    return entries()[name]


def make(name: str, **hyper: Any) -> Method:
    """The recipe of this name with these hyper-parameters."""
    found = find(name)
    known = found.hyper()
    unknown = [key for key in hyper if key not in known]
    if unknown:
        there = ", ".join(f"--{key} (default {value:g})" for key, value in known.items())
        asked = ", ".join(f"--{key}" for key in unknown)
        raise UserError(f"{name} has no hyper-parameter {asked}: it has {there or 'none'}")
    try:
        return found.factory(**hyper)
    except ValidationError as error:
        first = error.errors()[0]
        reason = first["msg"][0].lower() + first["msg"][1:]
        raise UserError(f"--{first['loc'][0]} {first['input']}: {reason}") from None


def same_recipe(name: str, hyper: Mapping[str, float]) -> list[str]:
    """Other methods that are this one under another name."""
    recipe, found = make(name, **hyper), []
    for entry in entries().values():
        if entry.name != name and entry.hyper().keys() == hyper.keys():
            with suppress(ValidationError):  # it allows less
                if entry.factory(**hyper) == recipe:
                    found.append(entry.name)
    return found
