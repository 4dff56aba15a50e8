"""The paper as data: its numbers, and a study for every table and figure with what it claims.

    from bntricks.paper import load_reported, load_study, study_names

Everything is read from the TOML files beside this one, and nothing here needs torch.
"""

from __future__ import annotations

import difflib
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from bntricks.errors import UserError
from bntricks.paper.claims import STREAMS, Claim, Side
from bntricks.paper.reported import Entry, Number, Reported
from bntricks.paper.study import SCALES, Scale, ScaleName, Study, Variant

__all__ = [
    "SCALES",
    "STREAMS",
    "Claim",
    "Entry",
    "Number",
    "Reported",
    "Scale",
    "ScaleName",
    "Side",
    "Study",
    "Variant",
    "load_reported",
    "load_study",
    "study_names",
]

_REPORTED = "reported"


def study_names() -> tuple[str, ...]:
    """Every study, in alphabetical order."""
    names = [entry.name for entry in files(__name__).iterdir() if entry.name.endswith(".toml")]
    return tuple(sorted({name.removesuffix(".toml") for name in names} - {_REPORTED}))


@cache
def load_study(name: str) -> Study:
    """The study of this name."""
    if name not in study_names():
        close = difflib.get_close_matches(name, study_names(), n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UserError(f"unknown study {name!r}: {hint}there are {', '.join(study_names())}")
    return Study.model_validate(_read(name))


@cache
def load_reported() -> Reported:
    """The paper's numbers."""
    return Reported.model_validate(_read(_REPORTED))


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
