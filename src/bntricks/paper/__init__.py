"""The paper as data: its numbers, and a study for every table and figure, with its claims.

    from bntricks.paper import load_reported, load_study, study_names

Everything is read from the TOML files in this folder, and nothing here needs torch.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bntricks.errors import UserError, unknown
from bntricks.files import parse_toml, read_errors, shown, text_bytes
from bntricks.paper.claims import STREAMS, Claim, Side
from bntricks.paper.reported import Number, PaperResult, Reported
from bntricks.paper.study import SCALES, Scale, ScaleName, Study, Variant, explained

__all__ = [
    "SCALES",
    "STREAMS",
    "Claim",
    "Number",
    "PaperResult",
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
    """List every study, in alphabetical order."""
    names = [entry.name for entry in files(__name__).iterdir() if entry.name.endswith(".toml")]
    return tuple(sorted({name.removesuffix(".toml") for name in names} - {_REPORTED}))


def load_study(name: str | Path) -> Study:
    """Load the study of this name, or the one in a TOML file of your own."""
    if isinstance(name, Path) or name.endswith(".toml"):
        return _own_study(Path(name).expanduser())
    return _paper_study(name)


def _own_study(path: Path) -> Study:
    with read_errors(path):
        content = text_bytes(path)
    try:
        values = parse_toml(content.decode())
        return Study.model_validate({"name": path.stem, **values})
    except ValidationError as error:
        reason = explained(error, Study)
    except ValueError as error:  # of TOML, or of its encoding
        reason = f"not TOML: {error}"
    raise UserError(f"{shown(path)}: {shown(reason)}")


@cache
def _paper_study(name: str) -> Study:
    if name not in study_names():
        own = "; one of your own is a file that ends with .toml"
        raise unknown("study", name, study_names(), own)
    return Study.model_validate(_read(name))


@cache
def load_reported() -> Reported:
    """Load the paper's numbers."""
    return Reported.model_validate(_read(_REPORTED))


def _read(name: str) -> dict[str, Any]:
    return parse_toml(files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
