"""Official archives, fetched once into the cache. A file appears under its name only when it is
whole and its md5 is the known one; an interrupted download leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bntricks.errors import UserError
from bntricks.streams.files.cache import cache_folder
from bntricks.streams.files.lock import building, publish, sync
from bntricks.streams.files.progress import Report

LARGEST = 1 << 30
"""Bytes after which a download is given up: no known archive has a third of them."""

_BY_HAND = "fetch the file by hand and pass --data DIR with the folder it lies in"


@dataclass(frozen=True, slots=True)
class Official:
    """An archive at its official host."""

    url: str
    md5: str


ARCHIVES = {
    "cifar-10-binary.tar.gz": Official(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
    ),
    "cifar-100-binary.tar.gz": Official(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
    ),
    "tiny-imagenet-200.zip": Official(
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        "90528d7ca1a48142e341f4ef8d21d0de",
    ),
}


def fetch(name: str, report: Report) -> Path:
    """The path of the official archive of this name, downloaded if it is not here yet."""
    official = ARCHIVES[name]
    target = cache_folder() / "downloads" / name
    if _is_whole(target, official):
        return target
    with building(target, report) as partial:
        if not _is_whole(target, official):
            _download(name, address(name), partial, report)
            found = _md5(partial)
            if found != official.md5:
                raise UserError(
                    f"{name} from {address(name)} has md5 {found}, not {official.md5}: "
                    f"try again, or {_BY_HAND}"
                )
            sync(partial)
            publish(partial, target)
    return target


def address(name: str) -> str:
    """Where an archive is fetched from: its official host, or the mirror in BNT_MIRROR."""
    mirror = os.environ.get("BNT_MIRROR")
    return f"{mirror.rstrip('/')}/{name}" if mirror else ARCHIVES[name].url


def _is_whole(path: Path, official: Official) -> bool:
    try:
        return _md5(path) == official.md5
    except OSError:
        return False


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _download(name: str, url: str, partial: Path, report: Report) -> None:
    import pooch

    with partial.open("wb") as file:
        sink = _Sink(file, name, report)
        download = pooch.HTTPDownloader(progressbar=sink, chunk_size=1 << 16, timeout=30)
        try:
            download(url, sink, None)
        except OSError as error:  # all of requests' errors are; those of the disk pass as _Full
            raise UserError(
                f"cannot download {url}: {_reason(error)}; check the network, set BNT_MIRROR "
                f"to a base URL that has {name}, or {_BY_HAND}"
            ) from error
        except _Full as full:
            raise full.error from None


def _reason(error: OSError) -> str:
    """What went wrong at the bottom of what requests and urllib3 wrapped around it."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason}"
    deepest: BaseException = error
    while inner := deepest.__cause__ or deepest.__context__:
        deepest = inner
    return getattr(deepest, "strerror", None) or str(deepest) or type(deepest).__name__


class _Full(Exception):
    """The disk refused the data; carries the OSError past the handler of network errors."""

    def __init__(self, error: OSError) -> None:
        self.error = error


class _Sink:
    """The file a download goes to, and the progress bar that pooch wants."""

    total: int = 0

    def __init__(self, file: BinaryIO, name: str, report: Report) -> None:
        self._file, self._name, self._report = file, name, report
        self._done = 0

    def write(self, chunk: bytes) -> None:
        self._done += len(chunk)
        if self._done > LARGEST:
            raise UserError(
                f"{self._name} goes on after {LARGEST:,} bytes, so it is not the known archive: "
                f"check BNT_MIRROR, or {_BY_HAND}"
            )
        try:
            self._file.write(chunk)
        except OSError as error:
            raise _Full(error) from error
        self._report(f"downloading {self._name}", self._done, self.total or None)

    def flush(self) -> None:
        """Called after every chunk; the file is flushed when it is closed."""

    def update(self, done: int) -> None:
        """write() reports, because it knows the true size of a chunk."""

    reset = close = flush
