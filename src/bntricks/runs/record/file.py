"""Records on disk: written whole, valid only if they agree with themselves, and never replaced by
one with different bits."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, takewhile
from pathlib import Path

from pydantic import ValidationError

from bntricks.errors import UserError, first_mistake
from bntricks.files import (
    move,
    pack_json,
    read_errors,
    shown,
    text_bytes,
    unpack_json,
    write_atomically,
)
from bntricks.runs.record import Record

NAME = "record.json"
REFUSED = "record.json.refused"
"""An invalid one, when the run was trained again."""
EARLIER = "record-{}.json"
"""Those of earlier trainings that gave different bits, numbered from 1 in the order of time."""


def save(record: Record, folder: Path) -> None:
    """Write a record. An earlier one that is invalid, or has different bits, is kept under another
    name."""
    earlier = load(folder, lambda reason: None)
    keep = None
    if earlier is None:
        keep = folder / REFUSED
    elif not same_bits(earlier, record):
        keep = _unused_name(folder)
    write_atomically(folder / NAME, pack_json(record.to_json(), indent=1), keep=keep)
    for path, other in earlier_trainings(folder):
        if same_bits(other, record):
            path.unlink()


def same_bits(one: Record, other: Record) -> bool:
    """Whether two trainings of a run gave the same bits, as far as their records say."""
    known = one.digest is not None and other.digest is not None
    return one.accuracy == other.accuracy and (one.digest == other.digest or not known)


def set_aside(folder: Path) -> None:
    """Rename the record of a run that is to be trained from the start, so that it is not taken for
    the new one's."""
    if load(folder, lambda reason: None) is not None:
        move(folder / NAME, _unused_name(folder))


def earlier_trainings(folder: Path) -> list[tuple[Path, Record]]:
    """List the valid records in this folder that later trainings of the run did not repeat, oldest
    first."""
    trainings: list[tuple[Path, Record]] = []
    for path in _earlier_files(folder):
        with suppress(UserError):
            trainings.append((path, read(path)))
    return trainings


def _earlier_files(folder: Path) -> Iterator[Path]:
    return takewhile(Path.exists, (folder / EARLIER.format(number) for number in count(1)))


def first_training(record: Record) -> Record:
    """Return the record that counts. Of several trainings with different bits it is the first, so
    that training again cannot choose a result; nor can damage, so all must be valid. Probes that it
    lacks are taken from later ones."""
    files = [] if record.path is None else _earlier_files(record.path)
    trainings = [run for run in map(read, files) if run.config == record.config]
    if not trainings:
        return record
    first, *later = [*trainings, record]
    probed = {
        probe: next((each for run in later if (each := getattr(run, probe)) is not None), None)
        for probe in ("phi", "biased_phi")
        if getattr(first, probe) is None
    }
    return first.model_copy(update=probed | {"trained_again": tuple(later)})


def replaced_by(record: Record, folder: Path) -> Record | None:
    """Return the record of an earlier training of the same run, if it had different bits."""
    earlier = load(folder, lambda reason: None)
    if earlier is None and (trainings := earlier_trainings(folder)):
        earlier = trainings[-1][1]
    if earlier is None or earlier.data.fingerprint != record.data.fingerprint:
        return None
    same_run = earlier.config == record.config
    return earlier if same_run and not same_bits(earlier, record) else None


def _unused_name(folder: Path) -> Path:
    return next(p for n in count(1) if not (p := folder / EARLIER.format(n)).exists())


def replacement(replaced: Record, record: Record, folder: Path) -> str:
    """Word a warning about a run that gave different bits than before."""
    return (
        f"{shown(folder)}: trained again with different results (ACC {replaced.acc:.2f}, now "
        f"{record.acc:.2f}); the first counts in reports and is kept beside it"
    )


def load(folder: Path, warn: Callable[[str], None]) -> Record | None:
    """Load the record of the run in this folder, or return None if there is no valid one; `warn` is
    called if there is an invalid one."""
    path = folder / NAME
    with read_errors(path):
        if not path.exists():
            return None
        content = text_bytes(path)
    try:
        return _believed(content, path)
    except _DamagedError as error:
        warn(f"{shown(path)} is not a valid run record ({error}): the run is trained again")
        return None


def read(path: Path) -> Record:
    """Load the record in a file, which must be there and valid."""
    with read_errors(path):
        content = text_bytes(path)
    return parsed(content, path)


def parsed(content: bytes, path: Path) -> Record:
    """Parse the content of this file, or of one to be written there, which must be valid."""
    try:
        return _believed(content, path)
    except _DamagedError as error:
        raise UserError(
            f"{shown(path)} is not a valid run record ({error}): delete it, or train the run again",
            remedy="force",
        ) from None


class _DamagedError(Exception):
    """The reason why a file is not a valid record."""


def _believed(content: bytes, path: Path) -> Record:
    try:
        # Records of earlier versions have no checksum; their numbers are checked all the same.
        record = Record.from_json(unpack_json(content, unsigned=True))
    except ValidationError as error:
        raise _DamagedError(shown(first_mistake(error))) from None
    except ValueError as error:
        raise _DamagedError(shown(str(error).splitlines()[0])) from None
    numbered = path.name.startswith("record-")
    place = path.parent if path.name == NAME or numbered else path
    return record.model_copy(update={"path": place, "already_there": True})
