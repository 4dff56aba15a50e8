"""A record on disk: written whole, and believed only if it is whole and agrees with itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from bntricks.errors import UserError, first_mistake
from bntricks.files import reading, regular_bytes, shown, write_atomically
from bntricks.runs.record import Record, checksum

NAME = "record.json"
REFUSED = "record.json.refused"
"""One that was not believed, when the run was trained again."""


def save(record: Record, folder: Path) -> None:
    """Write a record. One that was there and cannot be believed is kept under another name."""
    values = record.to_json()
    values["checksum"] = checksum(values)
    text = json.dumps(values, indent=1, allow_nan=False, ensure_ascii=False)
    believed = load(folder, lambda reason: None) is not None
    write_atomically(folder / NAME, text.encode(), keep=None if believed else folder / REFUSED)


def load(folder: Path, warn: Callable[[str], None]) -> Record | None:
    """The record of the run in this folder, None if there is none that can be believed; `warn` is
    told of one that cannot."""
    path = folder / NAME
    with reading(path):
        if not path.exists():
            return None
    try:
        return _believed(path)
    except _DamagedError as error:
        warn(f"{shown(path)} is no record of a run ({error}): the run is trained again")
        return None


def read(path: Path) -> Record:
    """The record in a file, which must be there and whole."""
    try:
        return _believed(path)
    except _DamagedError as error:
        raise UserError(
            f"{shown(path)} is no record of a run ({error}): delete it, or train the run again",
            remedy="force",
        ) from None


class _DamagedError(Exception):
    """Why a file is not believed."""


def _believed(path: Path) -> Record:
    with reading(path):
        content = regular_bytes(path)
    try:
        record = Record.from_json(json.loads(content, parse_constant=_refuse))
    except ValidationError as error:
        raise _DamagedError(shown(first_mistake(error))) from None
    except json.JSONDecodeError:
        raise _DamagedError("not whole JSON") from None
    except (ValueError, RecursionError) as error:
        raise _DamagedError(shown(str(error).splitlines()[0])) from None
    place = path.parent if path.name == NAME else path
    return record.model_copy(update={"path": place, "already_there": True})


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of a record")
