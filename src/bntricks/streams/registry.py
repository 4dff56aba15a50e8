"""The streams that can be opened by name. Those in `sources` register themselves, and any module
that is imported can register more:

    from bntricks.streams.registry import Options, StreamInfo, stream

    @stream("mine", summary="…", tasks="3 × 2", image_size=32, memory=200, data="given")
    def mine(info: StreamInfo, options: Options) -> Stream: ...
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from bntricks.errors import UserError
from bntricks.files import expanded
from bntricks.plugins.registry import Registry
from bntricks.streams.files.progress import Report, Warn, silent
from bntricks.streams.rearrange import ClassOrder, check_choices, rearrange
from bntricks.streams.stream import Stream

SMALLEST, LARGEST = 8, 512
HELD_OUT = 0.2

Origin = Literal["embedded", "download", "given"]
"""Where images come from: the package, or `data` if the stream takes any; `data`, or else the
official archive; only `data`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """What is known about a stream before its data is there. Plain values only."""

    name: str
    summary: str
    tasks: str
    """Tasks × classes."""
    image_size: int
    """Native size, or the default where images have none of their own."""
    memory: int
    """Default capacity of the memory."""
    official: tuple[int, int] | None = None
    """Training and test images of the full data set."""
    data: Origin


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of open_stream, checked as far as all streams have them in common."""

    data: Path | None
    data_is_given: bool
    """As an argument; otherwise it is BNT_DATA, a folder that all data sets share."""
    image_size: int | None
    images_per_class: int | None
    classes_per_task: int | None
    tasks: Sequence[Sequence[str]] | None
    held_out: float
    report: Report
    warn: Warn


Opener = Callable[[StreamInfo, Options], Stream]

STREAMS: dict[str, StreamInfo] = {}
"""In the order in which lists show them: first those that need no download."""
OPENERS: Registry[Opener] = Registry("stream", group="bntricks.streams")


def stream(name: str, **about: Any) -> Callable[[Opener], Opener]:
    """Register the function that opens the stream of this name, which is `about` these values of
    `StreamInfo`."""

    def register(opener: Opener) -> Opener:
        OPENERS.add(name, opener)
        infos = (STREAMS | {name: StreamInfo(name=name, **about)}).values()
        STREAMS.clear()
        for info in sorted(infos, key=lambda info: get_args(Origin).index(info.data)):
            STREAMS[info.name] = info
        return opener

    return register


def open_stream(
    name: str,
    *,
    data: Path | str | None = None,
    image_size: int | None = None,
    images_per_class: int | None = None,
    classes_per_task: int | None = None,
    tasks: Sequence[Sequence[str]] | None = None,
    class_order: ClassOrder | None = None,
    first: int | None = None,
    increment: int | None = None,
    blurry: float = 0.0,
    held_out: float = HELD_OUT,
    report: Report | None = None,
    warn: Warn = warnings.warn,
) -> Stream:
    """Open a stream by its name (one of STREAMS).

    `data` is the folder the images lie in (default: the environment's BNT_DATA; without either,
    the official archive is downloaded once, unless images are embedded). `image_size` resizes to
    squares of that side; `images_per_class` keeps the first training images of each class and the
    whole test set. `classes_per_task`, `tasks`, `class_order`, `first`, `increment` and `blurry`
    are those of `rearrange`: which classes come together, and when. `held_out` is for streams
    without test images of their own. `report` hears how far the work is, and `warn` that something
    in the cache was damaged.
    """
    if name not in OPENERS.entries():
        near = difflib.get_close_matches(name.lower(), STREAMS, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise UserError(
            f"there is no such stream.{guess} Choose one of: {', '.join(STREAMS)}",
            option="stream",
            value=name,
        )
    info = STREAMS[name]
    if image_size is not None and not SMALLEST <= image_size <= LARGEST:
        raise UserError(
            f"choose from {SMALLEST} to {LARGEST} pixels, or leave it out for {info.image_size}",
            option="image_size",
            value=image_size,
        )
    if images_per_class is not None and images_per_class < 1:
        raise UserError(
            "it must be at least 1; leave it out to take all images",
            option="images_per_class",
            value=images_per_class,
        )
    check_choices(class_order, first, increment, classes_per_task, tasks, blurry)
    if info.data != "given" and held_out != HELD_OUT:
        raise UserError(
            f"{name} has test images of its own: leave this out, or use the stream 'folder' for a "
            "split of your own",
            option="held_out",
        )
    if not 0 < held_out < 1:
        raise UserError(
            f"the share of each class kept for testing lies between 0 and 1, such as {HELD_OUT}",
            option="held_out",
            value=held_out,
        )
    folder = data if data is not None else os.environ.get("BNT_DATA") or None
    options = Options(
        data=None if folder is None else expanded(folder),
        data_is_given=data is not None,
        image_size=image_size,
        images_per_class=images_per_class,
        classes_per_task=classes_per_task,
        tasks=tasks,
        held_out=held_out,
        report=silent if report is None else report,
        warn=warn,
    )
    opened = OPENERS.find(name)(info, options)
    if info.data == "given":  # without tasks of its own, it was cut into these
        classes_per_task = tasks = None
    return rearrange(
        opened,
        class_order=class_order,
        first=first,
        increment=increment,
        classes_per_task=classes_per_task,
        tasks=tasks,
        blurry=blurry,
    )
