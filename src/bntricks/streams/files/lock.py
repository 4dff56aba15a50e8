"""Build a file or folder once, whoever else wants it at the same time. The lock is the kernel's
(flock), so it dies with its holder; what is unfinished lies under a name of its own, beside the
target, until it is renamed, and a killed builder's remains are swept away by the next one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bntricks.errors import UserError
from bntricks.streams.files.progress import Report

PARTIAL, LOCK = ".partial", ".lock"


@contextmanager
def building(target: Path, report: Report) -> Iterator[Path]:
    """Hold the target's lock; yield a path, not yet there, to build at and to `publish` from.

    Whatever is left at that path on leaving is removed. Any OSError inside is a failure to write.
    """
    partial = target.with_name(target.name + PARTIAL)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _held(target, report):
            _sweep(target.parent, mine=partial)
            try:
                yield partial
            finally:
                remove(partial)
    except OSError as error:
        raise UserError(
            f"cannot write to the cache folder {target.parent}: {error.strerror or error}; "
            "set BNT_CACHE to a folder with room that you may write to"
        ) from error


def publish(partial: Path, target: Path) -> None:
    """Give what was built its final name, on disk before any reader can see it."""
    remove(target)
    partial.rename(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Make sure that a file's bytes, or a folder's entries, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _held(target: Path, report: Report) -> Iterator[None]:
    # The lock file stays: removing it would let two processes lock two files of one name.
    with target.with_name(target.name + LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another process to finish {target.name}", 0, None)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep(folder: Path, mine: Path) -> None:
    """Remove what killed builders left: under our own name, and where nobody holds the lock."""
    for left in folder.glob("*" + PARTIAL):
        if left == mine:
            remove(left)
            continue
        with left.with_suffix(LOCK).open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            remove(left)
