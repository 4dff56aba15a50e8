"""A record on disk: written whole, and believed only if it is whole and agrees with itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from bntricks.errors import UserError, first_mistake
from bntricks.files import reading, regular_bytes, shown, write_atomically
from bntricks.runs.record import Record, checksum

NAME = "record.json"
REFUSED = "record.json.refused"
"""One that was not believed, when the run was trained again."""
REPLACED = "record.json.replaced"
"""That of an earlier training, which was forced to be repeated or came out differently."""


def save(record: Record, folder: Path) -> None:
    """Write a record. One that was there and cannot be believed, or has different results, is kept
    under another name."""
    values = record.to_json()
    values["checksum"] = checksum(values)
    text = json.dumps(values, indent=1, allow_nan=False, ensure_ascii=False)
    earlier = load(folder, lambda reason: None)
    keep = None
    if earlier is None:
        keep = folder / REFUSED
    elif earlier.accuracy != record.accuracy:
        keep = folder / REPLACED
    write_atomically(folder / NAME, text.encode(), keep=keep)


def set_aside(folder: Path) -> None:
    """Keep the record of a run that is to be trained from the start under another name, so that
    nobody takes it for the new one's."""
    if load(folder, lambda reason: None) is not None:
        (folder / NAME).replace(folder / REPLACED)


def replaced_by(record: Record, folder: Path) -> Record | None:
    """The record of an earlier training of the same run, if it had different results."""
    for name in (NAME, REPLACED):
        with suppress(UserError):
            earlier = read(folder / name)
            same_data = earlier.data.fingerprint == record.data.fingerprint
            same_run = same_data and earlier.config == record.config
            return earlier if same_run and earlier.accuracy != record.accuracy else None
    return None


def replacement(replaced: Record, record: Record, folder: Path) -> str:
    """What to say of a run that came out differently than before."""
    return (
        f"{shown(folder)}: trained again with different results (ACC {replaced.acc:.2f}, now "
        f"{record.acc:.2f}); the earlier record is {REPLACED}"
    )


def load(folder: Path, warn: Callable[[str], None]) -> Record | None:
    """The record of the run in this folder, None if there is none that can be believed; `warn` is
    told of one that cannot."""
    path = folder / NAME
    with reading(path):
        if not path.exists():
            return None
    with reading(path):
        content = regular_bytes(path)
    try:
        return _believed(content, path)
    except _DamagedError as error:
        warn(f"{shown(path)} is not a valid run record ({error}): the run is trained again")
        return None


def read(path: Path) -> Record:
    """The record in a file, which must be there and whole."""
    with reading(path):
        content = regular_bytes(path)
    return parsed(content, path)


def parsed(content: bytes, path: Path) -> Record:
    """The record that is the content of this file, or will be, and must be whole."""
    try:
        return _believed(content, path)
    except _DamagedError as error:
        raise UserError(
            f"{shown(path)} is not a valid run record ({error}): delete it, or train the run again",
            remedy="force",
        ) from None


class _DamagedError(Exception):
    """Why a file is not believed."""


def _believed(content: bytes, path: Path) -> Record:
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
