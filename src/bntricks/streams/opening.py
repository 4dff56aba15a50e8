"""open_stream: from a name and the user's wishes to a Stream. Mistakes are found here first."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

from bntricks.errors import UserError
from bntricks.streams.files.cache import expanded
from bntricks.streams.files.progress import Report, silent
from bntricks.streams.registry import HELD_OUT, OPENERS, STREAMS, Known, Options
from bntricks.streams.stream import Stream

# isort: split
# They register themselves, in the order in which lists show them.
from bntricks.streams.sources import digits  # noqa: F401

# isort: split
from bntricks.streams.sources import cifar, tiny_imagenet  # noqa: F401

# isort: split
from bntricks.streams.sources import folder  # noqa: F401

SMALLEST, LARGEST = 8, 512


def open_stream(
    name: str,
    *,
    data: Path | str | None = None,
    image_size: int | None = None,
    images_per_class: int | None = None,
    classes_per_task: int | None = None,
    tasks: Sequence[Sequence[str]] | None = None,
    held_out: float = HELD_OUT,
    report: Report | None = None,
) -> Stream:
    """Open a stream by its name (one of STREAMS).

    `data` is the folder the images lie in (default: the environment's BNT_DATA; without either,
    the official archive is downloaded once). `image_size` resizes to squares of that side;
    `images_per_class` keeps the first training images of each class and the whole test set.
    `classes_per_task`, `tasks` and `held_out` are for streams without a split of their own.
    """
    known = _known(name)
    if image_size is not None and not SMALLEST <= image_size <= LARGEST:
        raise UserError(
            f"image_size is {image_size}: it must be from {SMALLEST} to {LARGEST} pixels; "
            f"leave it out for {known.image_size}"
        )
    if images_per_class is not None and images_per_class < 1:
        raise UserError(
            f"images_per_class is {images_per_class}: it must be at least 1; "
            "leave it out to take all images"
        )
    _check_split(known, classes_per_task, tasks, held_out)
    where = data if data is not None else os.environ.get("BNT_DATA") or None
    options = Options(
        data=None if where is None else expanded(where),
        image_size=image_size,
        images_per_class=images_per_class,
        classes_per_task=classes_per_task,
        tasks=None if tasks is None else tuple(tuple(task) for task in tasks),
        held_out=held_out,
        report=silent if report is None else report,
    )
    return OPENERS[name](known, options)


def _known(name: str) -> Known:
    if name in STREAMS:
        return STREAMS[name]
    near = difflib.get_close_matches(name.lower(), STREAMS, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise UserError(f"there is no stream {name!r}.{guess} Choose one of: {', '.join(STREAMS)}")


def _check_split(
    known: Known,
    classes_per_task: int | None,
    tasks: Sequence[Sequence[str]] | None,
    held_out: float,
) -> None:
    if known.fixed_split:
        given = {
            "classes_per_task": classes_per_task is not None,
            "tasks": tasks is not None,
            "held_out": held_out != HELD_OUT,
        }
        for option, wanted in given.items():
            if wanted:
                raise UserError(
                    f"{known.name} has a fixed split ({known.tasks}): leave out {option}, "
                    "or use the stream 'folder' for a split of your own"
                )
        return
    if not 0 < held_out < 1:
        raise UserError(
            f"held_out is {held_out}: it is the share of each class kept for testing, "
            f"between 0 and 1, such as {HELD_OUT}"
        )
    if tasks is not None and classes_per_task is not None:
        raise UserError("both tasks and classes_per_task are given: leave one of them out")
    if tasks is not None and (isinstance(tasks, str) or any(isinstance(t, str) for t in tasks)):
        raise UserError(
            "tasks must be a list of lists of class names, such as [['cat', 'dog'], ['owl']]"
        )
