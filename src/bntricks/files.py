"""Files that are whole or absent, and locks that die with their holder."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bntricks.errors import HeldError


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file beside it, flush to disk, rename: never half a file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def held(path: Path, *, wait: bool = False) -> Iterator[None]:
    """A kernel lock on this file; the kernel drops it when the process ends, however it ends."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise HeldError(f"{path.parent} is being worked on by another process") from None
        yield
