"""Official archives, read member by member into memory. Only members asked for by name are looked
at, sizes are checked before anything is read, and nothing is written to disk.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import IO, cast

from bntricks.errors import UserError
from bntricks.streams.files.progress import Report
from bntricks.streams.files.source import shown, too_large

MOST_MEMBERS = 1000


class Tar:
    """A .tar.gz, read from its beginning to its end in one pass."""

    def __init__(self, path: Path, root: str) -> None:
        self.path, self.root = path, root

    def digest(self, names: Sequence[str], report: Report) -> str:
        return _file_digest(self.path, report)

    def read_all(self, names: Sequence[str], limit: int) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        with _readable(self.path), gzip.open(self.path) as file:
            bounded = _Bounded(file, limit * len(names), self.path)
            with tarfile.open(fileobj=cast(IO[bytes], bounded), mode="r|") as tar:
                for number, member in enumerate(tar):
                    if number == MOST_MEMBERS:
                        raise UserError(
                            f"{shown(self.path)} has more than {MOST_MEMBERS} members: "
                            "this is not the official archive; fetch it again"
                        )
                    top, _, name = member.name.removeprefix("./").partition("/")
                    if top != self.root or name not in names or not member.isreg():
                        continue
                    if member.size > limit:
                        raise too_large(f"{member.name} in {self.path}", member.size, limit)
                    content = tar.extractfile(member)
                    found[name] = content.read() if content else b""
        missing = [name for name in names if name not in found]
        if missing:
            raise _lacking(self.path, self.root, missing)
        return found


class Zip:
    """A .zip, whose members can be read in any order and from several threads."""

    def __init__(self, path: Path, root: str) -> None:
        self.path, self.root = path, root
        self._lock = Lock()

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        with _readable(self.path):
            return zipfile.ZipFile(self.path)

    def digest(self, names: Sequence[str], report: Report) -> str:
        return _file_digest(self.path, report)

    def names(self, under: str) -> list[str]:
        top = f"{self.root}/"
        inside = f"{top}{under}/"
        return sorted({n.removeprefix(top) for n in self._zip.namelist() if n.startswith(inside)})

    def read(self, name: str, limit: int) -> bytes:
        try:
            info = self._zip.getinfo(f"{self.root}/{name}")
        except KeyError:
            raise _lacking(self.path, self.root, [name]) from None
        if info.file_size > limit:
            raise too_large(f"{info.filename} in {self.path}", info.file_size, limit)
        with self._lock, _readable(self.path):
            return self._zip.read(info)


class _Bounded:
    """A stream that refuses to grow past a limit, whatever sizes its headers claim."""

    def __init__(self, file: gzip.GzipFile, limit: int, path: Path) -> None:
        self._file, self._left, self._limit, self._path = file, limit, limit, path

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise UserError(
                f"{shown(self._path)} unpacks to more than {self._limit:,} bytes: "
                "this is not the official archive; fetch it again"
            )
        return data


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Whatever a damaged archive raises becomes one line that names it."""
    try:
        yield
    except (
        OSError,
        EOFError,
        ValueError,
        RuntimeError,  # encrypted, or compressed in a way that is not known
        zlib.error,
        tarfile.TarError,
        zipfile.BadZipFile,
    ) as error:
        reason = str(error) or type(error).__name__
        raise UserError(
            f"cannot read the archive {shown(path)}: {shown(reason)}; fetch it again"
        ) from error


def _lacking(path: Path, root: str, missing: Sequence[str]) -> UserError:
    members = ", ".join(f"{root}/{name}" for name in missing)
    return UserError(f"{shown(path)} lacks {shown(members)}: fetch the archive again, whole")


def _file_digest(path: Path, report: Report) -> str:
    # md5, so that a file got by hand and the official one, known by its md5, share their entry.
    report(f"reading {shown(path.name)}", 0, None)
    with _readable(path), path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
