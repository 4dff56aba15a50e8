"""folder: any folder of class folders of images becomes a stream. Classes come in sorted order, or
as `tasks` lists them; a share of each class, evenly spread over its files, is held out for testing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from bntricks.errors import UserError
from bntricks.streams.files.cache import Plan, PlannedPart, cached
from bntricks.streams.files.image import Pixels, Unreadable, in_blocks, square_rgb
from bntricks.streams.files.source import Folder, check_folder, reading, shown
from bntricks.streams.registry import Known, Options, stream
from bntricks.streams.stream import Stream
from bntricks.streams.tasks import (
    Order,
    arrange,
    by_name,
    first_task_moments,
    in_blocks_of,
    with_order,
)

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")
PER_TASK = 2
FILE_LIMIT = 256_000_000


@stream(
    "folder",
    summary="your own images: a folder with one folder of images for each class",
    tasks=f"{PER_TASK} classes a task, or as listed",
    image_size=32,
    memory=500,
    data="given",
)
def folder(known: Known, options: Options) -> Stream:
    source = image_folder(options.data)
    files = images_by_class(source)
    order = _order(list(files), options)
    size = options.image_size or known.image_size
    names = list(chain.from_iterable(files.values()))
    content = source.digest(names, options.report)
    decoded = cached(
        "folder",
        hashlib.sha256(f"{content} {size} {options.held_out}".encode()).hexdigest(),
        lambda: _plan(source, files, size, options.held_out),
        options.report,
    )
    tasks, class_names = arrange(decoded, order, options.images_per_class)
    mean, std = first_task_moments(tasks)
    return Stream(
        known.name,
        tasks,
        class_names,
        mean,
        std,
        with_order(decoded.fingerprint, order),
        pad=size // 8,
        flip=True,
        memory=known.memory,
    )


def held_out_positions(count: int, share: float) -> frozenset[int]:
    """Which of so many images are for testing: evenly spread, at least one, never all."""
    tests = min(count - 1, max(1, round(count * share)))
    return frozenset((2 * k + 1) * count // (2 * tests) for k in range(tests))


def image_folder(data: Path | None) -> Folder:
    if data is None:
        raise UserError(
            "the stream 'folder' needs images: pass --data DIR with one folder for each class"
        )
    with reading(data):
        check_folder(data, "with one folder of images for each class")
    return Folder(data)


def images_by_class(source: Folder) -> dict[str, list[str]]:
    """The image files of each class, sorted."""
    with reading(source.path):
        classes = sorted(
            entry.name
            for entry in source.path.iterdir()
            if entry.is_dir() and not entry.name.startswith(".")
        )
    if not classes:
        raise UserError(
            f"{shown(source.path)} holds no class folders: "
            "put the images of each class into a folder named after it"
        )
    files: dict[str, list[str]] = {}
    for name in classes:
        if not name.isprintable():
            raise UserError(
                f"the class folder {shown(name)} in {shown(source.path)} has a name that cannot "
                "be printed: rename it"
            )
        files[name] = [f for f in source.names(name) if f.lower().endswith(EXTENSIONS)]
        if len(files[name]) < 2:
            raise UserError(
                f"the class {name!r} in {shown(source.path)} has "
                f"{'one image' if files[name] else 'no images'}: it needs at least two "
                f"({' '.join(EXTENSIONS)}), one to train and one to test"
            )
    return files


def decode(source: Folder, size: int, name: str) -> Pixels:
    """One image of a folder as a square, [3, size, size]."""
    try:
        return square_rgb(source.read(name, FILE_LIMIT), size)
    except Unreadable as error:
        raise UserError(
            f"cannot read the image {shown(source.path / name)}: {shown(str(error))}; "
            "repair it or move it away"
        ) from error


def _order(classes: Sequence[str], options: Options) -> Order:
    if options.tasks is not None:
        return by_name(options.tasks, {name: k for k, name in enumerate(classes)})
    per_task = PER_TASK if options.classes_per_task is None else options.classes_per_task
    return in_blocks_of(len(classes), per_task)


def _plan(source: Folder, files: dict[str, list[str]], size: int, share: float) -> Plan:
    def part(testing: bool) -> PlannedPart:
        chosen = []
        for group in files.values():
            held_out = held_out_positions(len(group), share)
            chosen.append([f for k, f in enumerate(group) if (k in held_out) == testing])
        return PlannedPart(
            tuple(len(group) for group in chosen),
            in_blocks(list(chain.from_iterable(chosen)), partial(decode, source, size)),
        )

    return Plan(
        shown(source.path), (3, size, size), tuple(files), part(testing=False), part(testing=True)
    )
