"""Folders, .tar.gz and .zip files that hold a data set.

They are not trusted: only the files that are needed are read, by their known names and into memory,
after their sizes were checked. Nothing is unpacked to disk.
"""

import gzip
import hashlib
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import IO, cast

from bntricks.errors import UserError
from bntricks.files import read_errors, regular_bytes, shown
from bntricks.streams.files.progress import OnProgress

MOST_MEMBERS = 1000
LARGEST = 1 << 30
"""Maximum size of an archive in bytes, three times that of the largest known one."""


class Folder:
    """A folder whose files are read by names relative to it, written with slashes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self, under: str) -> list[str]:
        """List all files in a folder inside this one, sorted, without hidden ones. Links to folders
        are not followed."""

        def fail(error: OSError) -> None:
            raise error

        names: list[str] = []
        with read_errors(self.path / under):
            for parent, folders, files in os.walk(self.path / under, onerror=fail):
                folders[:] = [name for name in folders if not name.startswith(".")]
                prefix = Path(parent).relative_to(self.path).as_posix()
                names.extend(f"{prefix}/{name}" for name in files if not name.startswith("."))
        return sorted(names)

    def read(self, name: str, limit: int) -> bytes:
        path = self.path / name
        with read_errors(path):
            _check_size(path, path.stat().st_size, limit)
            return regular_bytes(path)

    def read_all(self, names: Sequence[str], limit: int) -> dict[str, bytes]:
        missing = [name for name in names if not (self.path / name).is_file()]
        if missing:
            raise _lacking(self.path, missing)
        return {name: self.read(name, limit) for name in names}

    def digest(self, names: Sequence[str], limit: int, report: OnProgress) -> str:
        """Hash these files' names and contents. All sizes are checked against the limit before
        anything is read."""
        for name in names:
            _check_file(self.path / name, limit)
        digest = hashlib.sha256()
        for done, name in enumerate(names):
            if done % 256 == 0:
                report(f"reading {shown(self.path.name)}", done, len(names))
            digest.update(os.fsencode(name) + b"\0" + _content_digest(self.path / name))
        report(f"reading {shown(self.path.name)}", len(names), len(names))
        return digest.hexdigest()


class Tar:
    """A .tar.gz, read in one pass. `root` is its top folder. Limits are for the whole content."""

    def __init__(self, path: Path, root: str) -> None:
        self.path, self.root = path, root

    def read_all(self, names: Sequence[str], limit: int) -> dict[str, bytes]:
        contents: dict[str, bytes] = {}
        with _readable(self.path), gzip.open(self.path) as file:
            bounded = _Bounded(file, limit, self.path)
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
                    _check_size(f"{member.name} in {self.path}", member.size, limit)
                    content = tar.extractfile(member)
                    contents[name] = content.read() if content else b""
            while bounded.read(1 << 20):
                pass  # the checksum is at the end of the file, which may be after that of the tar
        missing = [f"{self.root}/{name}" for name in names if name not in contents]
        if missing:
            raise _lacking(self.path, missing)
        return contents


class Zip:
    """A .zip, whose members can be read in any order and from several threads. `root` is its top
    folder."""

    def __init__(self, path: Path, root: str) -> None:
        self.path, self.root = path, root
        self._lock = Lock()

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        with _readable(self.path):
            return zipfile.ZipFile(self.path)

    def names(self, under: str) -> list[str]:
        root = f"{self.root}/"
        prefix = f"{root}{under}/"
        return sorted({n.removeprefix(root) for n in self._zip.namelist() if n.startswith(prefix)})

    def read(self, name: str, limit: int) -> bytes:
        member = f"{self.root}/{name}"
        try:
            info = self._zip.getinfo(member)
        except KeyError:
            raise _lacking(self.path, [member]) from None
        _check_size(f"{member} in {self.path}", info.file_size, limit)
        with self._lock, _readable(self.path):
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{member} is compressed by an unknown method")
            with self._zip.open(info) as file:
                # The directory may lie about the size.
                return file.read(limit + 1)


def archive_digest(path: Path, report: OnProgress) -> str:
    """Compute the file's md5, by which official archives are known, so that one fetched by hand
    shares their cache entries."""
    _check_file(path, LARGEST)
    report(f"reading {shown(path.name)}", 0, None)
    with _readable(path), path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def gunzipped(content: bytes, limit: int, path: Path) -> bytes:
    """Unpack the content of the .gz file at this path."""
    with _readable(path), gzip.open(io.BytesIO(content)) as file:
        return _Bounded(file, limit, path).read()


class _Bounded:
    """A file that raises when more than a limit is read, whatever sizes its headers claim."""

    def __init__(self, file: gzip.GzipFile, limit: int, path: Path) -> None:
        self._file, self._remaining, self._limit, self._path = file, limit, limit, path

    def read(self, size: int = -1) -> bytes:
        at_most = self._remaining + 1
        data = self._file.read(min(size, at_most) if size >= 0 else at_most)
        self._remaining -= len(data)
        if self._remaining < 0:
            raise UserError(
                f"{shown(self._path)} unpacks to more than {self._limit:,} bytes: "
                "this is not the official archive; fetch it again"
            )
        return data


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn whatever a damaged archive raises into one line that names it."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # a damaged or hostile one raises nearly anything
        reason = str(error) or type(error).__name__
        raise UserError(
            f"cannot read the archive {shown(path)}: {shown(reason)}; fetch it again"
        ) from error


def _content_digest(path: Path) -> bytes:
    with read_errors(path), suppress(FileNotFoundError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
    return b"missing"  # reported when the file is read


def _check_file(path: Path, limit: int) -> None:
    with read_errors(path), suppress(FileNotFoundError):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
            raise UserError(f"{shown(path)} is not a regular file: move it away")
        _check_size(path, status.st_size, limit)


def _lacking(path: Path, missing: Sequence[str]) -> UserError:
    return UserError(f"{shown(path)} lacks {shown(', '.join(missing))}: fetch it again, whole")


def _check_size(what: str | Path, size: int, limit: int) -> None:
    if size > limit:
        raise UserError(
            f"{shown(what)} has {size:,} bytes, and at most {limit:,} are read: replace it"
        )
