"""Callbacks for long work (hashing, decoding, downloading): its progress, and warnings."""

from collections.abc import Callable
from typing import Protocol

Warn = Callable[[str], None]
"""Called with a sentence about something that was repaired."""


class OnProgress(Protocol):
    """Called from the thread that opened the stream, with `done` growing towards `total`."""

    def __call__(self, what: str, done: int, total: int | None) -> None: ...


def silent(what: str, done: int, total: int | None) -> None:
    """Report nothing."""
