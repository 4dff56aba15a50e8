"""Where the bytes of a data set come from: a folder, or an official archive, given or downloaded.
Members are read by their known names, with a limit on their size, and nothing is ever unpacked.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from bntricks.errors import UserError
from bntricks.streams.files.download import ARCHIVES, fetch
from bntricks.streams.files.progress import Report


def shown(name: str | Path) -> str:
    """A file name as text for one line of a message: what does not print is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(name))


@contextmanager
def reading(what: str | Path) -> Iterator[None]:
    """A file or folder that the system does not let us read is named in one line."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {shown(what)}: {error.strerror or error}") from error


class Folder:
    """A folder whose files are read by names relative to it, written with slashes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self, under: str) -> list[str]:
        """All files in a folder inside this one, sorted. Hidden files and folders are left out,
        and links to folders are not followed."""

        def fail(error: OSError) -> None:
            raise error

        found: list[str] = []
        with reading(self.path / under):
            for where, folders, files in os.walk(self.path / under, onerror=fail):
                folders[:] = [name for name in folders if not name.startswith(".")]
                inside = Path(where).relative_to(self.path).as_posix()
                found.extend(f"{inside}/{name}" for name in files if not name.startswith("."))
        return sorted(found)

    def read(self, name: str, limit: int) -> bytes:
        path = self.path / name
        with reading(path):
            size = path.stat().st_size
            if size > limit:
                raise too_large(path, size, limit)
            return path.read_bytes()

    def read_all(self, names: Sequence[str], limit: int) -> dict[str, bytes]:
        missing = [name for name in names if not (self.path / name).is_file()]
        if missing:
            raise UserError(f"{shown(self.path)} lacks {', '.join(missing)}: fetch it again, whole")
        return {name: self.read(name, limit) for name in names}

    def digest(self, names: Sequence[str], report: Report) -> str:
        """A hash of these files' names and contents."""
        digest = hashlib.sha256()
        for done, name in enumerate(names):
            if done % 256 == 0:
                report(f"reading {shown(self.path.name)}", done, len(names))
            digest.update(os.fsencode(name) + b"\0" + _content(self.path / name))
        report(f"reading {shown(self.path.name)}", len(names), len(names))
        return digest.hexdigest()


def _content(path: Path) -> bytes:
    with reading(path), suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            raise UserError(f"{shown(path)} is not a regular file: move it away")
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    return b"missing"  # whoever needs the file will say so


class Archive(Protocol):
    """A single file that holds a data set."""

    path: Path

    def digest(self, names: Sequence[str], report: Report) -> str: ...


A = TypeVar("A", bound=Archive)


@dataclass(frozen=True, slots=True)
class Layout(Generic[A]):
    """The names an official data set goes by, and the kind of its archive."""

    folder: str
    """Of the unpacked files; inside the archive, the same folder is on top."""
    archive: str
    probe: str
    """A file by which the unpacked folder itself is known."""
    open_archive: Callable[[Path, str], A]


@dataclass(frozen=True, slots=True)
class Found(Generic[A]):
    """A hash of the content, known before the content has to be here, and how to get at it."""

    digest: str
    open: Callable[[], Folder | A]


def find(
    data: Path | None,
    layout: Layout[A],
    members: Callable[[Folder], Sequence[str]],
    report: Report,
) -> Found[A]:
    """The data set in `data`, or else the official archive, which is downloaded when opened."""
    if data is None:
        return Found(
            ARCHIVES[layout.archive].md5,
            lambda: layout.open_archive(fetch(layout.archive, report), layout.folder),
        )
    source = locate(data, layout)
    names = members(source) if isinstance(source, Folder) else ()
    return Found(source.digest(names, report), lambda: source)


def locate(data: Path, layout: Layout[A]) -> Folder | A:
    """The folder or archive of this layout that `data` is, or holds."""
    wanted = f"{layout.folder}/ or {layout.archive}"
    with reading(data):
        if data.is_file() and data.name.endswith(Path(layout.archive).suffix):
            return layout.open_archive(data, layout.folder)
        check_folder(data, f"with a folder that holds {wanted}, or leave it out to download")
        if (data / layout.folder).is_dir():
            return Folder(data / layout.folder)
        if data.name == layout.folder or (data / layout.probe).is_file():
            return Folder(data)
        if (data / layout.archive).is_file():
            return layout.open_archive(data / layout.archive, layout.folder)
    raise UserError(
        f"{shown(data)} does not hold {wanted}: pass --data DIR with a folder that does, "
        "or leave it out to download"
    )


def check_folder(data: Path, advice: str) -> None:
    if not data.is_dir():
        what = "is not a folder" if data.exists() else "does not exist"
        raise UserError(f"the data folder {shown(data)} {what}: pass --data DIR {advice}")


def too_large(what: str | Path, size: int, limit: int) -> UserError:
    return UserError(
        f"{shown(what)} is {size:,} bytes, where at most {limit:,} can be right: replace the file"
    )
