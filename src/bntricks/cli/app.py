"""The command line's root, and what its commands share about flags."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Annotated, Any

from cyclopts import App, Parameter

from bntricks.errors import UserError


def _shown(default: Any) -> str | None:
    """A switch is off and a list empty unless the user says so; that goes without saying."""
    return None if default in (None, ()) or default is False else str(default)


app = App(
    name="bnt",
    help="BatchNorm in class-incremental learning: train, compare and take apart BN Tricks.\n\n"
    "Start with `bnt demo`, then `bnt methods` and `bnt streams`, then `bnt run`.",
    help_format="markdown",
    default_parameter=Parameter(show_default=_shown),
)

Json = Annotated[bool, Parameter(negative=())]
Switch = Annotated[bool, Parameter(negative=())]


def flag(option: str) -> str:
    """How the command line calls an option."""
    return f"--{option.replace('_', '-')}"


def refuse_misspelt(hyper: Collection[str], options: Iterable[str]) -> None:
    """A flag that no option has may be a hyper-parameter of the method, or a misspelt option."""
    flags = [flag(option) for option in options]
    for name in hyper:
        close = difflib.get_close_matches(flag(name), flags, n=1, cutoff=0.7)
        if close:
            raise UserError(f"unknown flag {flag(name)}: did you mean {close[0]}?")
