"""The command line's root, and the kinds of flags its commands share."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App, Parameter


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
