"""How long work (hashing, decoding, downloading) reports its progress. Nothing here prints."""

from __future__ import annotations

from typing import Protocol


class Report(Protocol):
    """Called from the thread that opened the stream, with `done` growing towards `total`."""

    def __call__(self, what: str, done: int, total: int | None) -> None: ...


def silent(what: str, done: int, total: int | None) -> None:
    """The report of a caller who wants none."""
