"""The streams that can be opened by name. Each registers itself with the `stream` decorator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bntricks.streams.files.progress import Report
from bntricks.streams.stream import Stream

HELD_OUT = 0.2


@dataclass(frozen=True, slots=True)
class Known:
    """What can be said of a stream before its data is there. Plain values only."""

    name: str
    summary: str
    tasks: str
    """Tasks × classes."""
    image_size: int
    """Native size, or the default where images have none of their own."""
    memory: int
    """Default capacity of the memory."""
    official: tuple[int, int] | None
    """Training and test images of the full data set."""
    data: Literal["embedded", "download", "given"]
    """Where images come from: the package; `data`, or else the official archive; only `data`."""

    @property
    def fixed_split(self) -> bool:
        """Tasks and test images are part of the stream; with one's own data they are a choice."""
        return self.data != "given"


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller of open_stream asked for, checked as far as every stream agrees on it."""

    data: Path | None
    image_size: int | None
    images_per_class: int | None
    classes_per_task: int | None
    tasks: tuple[tuple[str, ...], ...] | None
    held_out: float
    report: Report


Opener = Callable[[Known, Options], Stream]

STREAMS: dict[str, Known] = {}
OPENERS: dict[str, Opener] = {}


def stream(
    name: str,
    *,
    summary: str,
    tasks: str,
    image_size: int,
    memory: int,
    official: tuple[int, int] | None = None,
    data: Literal["embedded", "download", "given"],
) -> Callable[[Opener], Opener]:
    """Register the function that opens the stream of this name."""

    def register(opener: Opener) -> Opener:
        STREAMS[name] = Known(name, summary, tasks, image_size, memory, official, data)
        OPENERS[name] = opener
        return opener

    return register
