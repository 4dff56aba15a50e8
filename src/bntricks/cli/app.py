"""The command line's root, and the kinds of flags its commands share."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

app = App(
    name="bnt",
    help="BatchNorm in class-incremental learning: train, compare and take apart BN Tricks.\n\n"
    "Start with `bnt demo`, then `bnt methods` and `bnt streams`, then `bnt run`.",
    help_format="markdown",
)

Json = Annotated[bool, Parameter(negative=())]
Switch = Annotated[bool, Parameter(negative=())]
