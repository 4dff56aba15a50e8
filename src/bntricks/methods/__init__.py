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
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import ValidationError, validate_call

from bntricks.errors import UserError
from bntricks.recipe import Method
from bntricks.tricks import bn_tricks

__all__ = ["Entry", "entries", "make", "method"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A method's name on the command line, its name in the paper, and how to make it."""

    name: str
    title: str
    summary: str
    factory: Callable[..., Method]

    @property
    def hyper(self) -> dict[str, float]:
        """Hyper-parameters with their defaults."""
        return {n: p.default for n, p in inspect.signature(self.factory).parameters.items()}


_ENTRIES: dict[str, Entry] = {}


def method(
    name: str, *, title: str, bnt: bool = False
) -> Callable[[Callable[..., Method]], Callable[..., Method]]:
    """Register a recipe. With `bnt`, its BN Tricks form is registered as `<name>-bnt` too."""

    def register(factory: Callable[..., Method]) -> Callable[..., Method]:
        summary = (inspect.getdoc(factory) or "").split("\n")[0]
        _ENTRIES[name] = Entry(name, title, summary, factory)
        if bnt:

            def tricked(**hyper: float) -> Method:
                return bn_tricks(factory(**hyper))

            tricked.__signature__ = inspect.signature(factory)  # type: ignore[attr-defined]
            note = f"{title} with BN Tricks."
            _ENTRIES[f"{name}-bnt"] = Entry(f"{name}-bnt", f"{title}-BNT", note, tricked)
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


def make(name: str, **hyper: Any) -> Method:
    """The recipe of this name with these hyper-parameters."""
    found = entries().get(name)
    if found is None:
        close = difflib.get_close_matches(name, entries(), n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UserError(f"unknown method {name!r}: {hint}there are {', '.join(entries())}")
    unknown = [key for key in hyper if key not in found.hyper]
    if unknown:
        known = ", ".join(f"--{key} (default {value:g})" for key, value in found.hyper.items())
        raise UserError(
            f"{name} has no hyper-parameter {', '.join(f'--{key}' for key in unknown)}: "
            f"it has {known or 'none'}"
        )
    try:
        return validate_call(found.factory)(**hyper)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"--{first['loc'][0]} {first['input']}: {first['msg']}") from None
