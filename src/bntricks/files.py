"""Files that are whole or absent, and locks that die with their holder."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bntricks.errors import HeldError

PARTIAL = ".partial"


def write_atomically(path: Path, content: bytes, *, keep: Path | None = None) -> None:
    """Write to a temporary file beside it, flush to disk, rename: never half a file. What was
    there before is moved to `keep`, if that is given."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            path.replace(keep)
        partial.replace(path)
        _sync(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove what writers left here that were killed; nobody may be writing."""
    for left in folder.glob(f".*{PARTIAL}"):
        left.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Without this, a power loss may undo a rename."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def held(path: Path, *, wait: bool = False) -> Iterator[None]:
    """A kernel lock on this file; the kernel drops it when the process ends, however it ends."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise HeldError(f"{path.parent} is being worked on by another process") from None
        yield
