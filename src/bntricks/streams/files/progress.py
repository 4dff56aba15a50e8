"""How long work (hashing, decoding, downloading) reports its progress, and what a user should know
of it. Nothing here prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Warn = Callable[[str], None]
"""Called with a sentence about something that was mended, and that a user should know of."""


class Report(Protocol):
    """Called from the thread that opened the stream, with `done` growing towards `total`."""

    def __call__(self, what: str, done: int, total: int | None) -> None: ...


def silent(what: str, done: int, total: int | None) -> None:
    """The report of a caller who wants none."""
