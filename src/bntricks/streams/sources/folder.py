"""folder: a stream of any images that lie in a folder for each class. Classes come in sorted order,
or as `tasks` lists them; a share of each class is held out for testing.
"""

import hashlib
from functools import partial
from itertools import chain
from pathlib import Path

from bntricks.errors import UserError
from bntricks.files import read_errors, shown
from bntricks.streams.apply import held_out_positions
from bntricks.streams.files.archive import Folder
from bntricks.streams.files.dataset import Plan, PlannedSplit, cached
from bntricks.streams.files.image_files import FILE_LIMIT, decode, images_by_class
from bntricks.streams.published import check_folder
from bntricks.streams.registry import GivenOptions, StreamInfo, stream
from bntricks.streams.stream import Stream
from bntricks.streams.tasks import CLASSES_PER_TASK, choose_order, make_stream

ByClass = dict[str, list[str]]
"""Names of image files by their class."""


@stream(
    "folder",
    summary="your own images: a folder with one folder of images for each class",
    tasks=f"{CLASSES_PER_TASK} classes a task, or as listed",
    image_size=32,
    memory=500,
    data="given",
    applies=("held_out", "classes_per_task", "tasks"),
)
def folder(info: StreamInfo, options: GivenOptions) -> Stream:
    source = image_folder(options.data)
    files = images_by_class(source)
    return of_files(info, options, source, files, *divided(files, options.held_out))


def divided(files: ByClass, share: float) -> tuple[ByClass, ByClass]:
    """Hold out this share of each class's files for testing."""
    train, test = dict[str, list[str]](), dict[str, list[str]]()
    for label, names in files.items():
        held_out = held_out_positions(len(names), share)
        train[label] = [name for k, name in enumerate(names) if k not in held_out]
        test[label] = [name for k, name in enumerate(names) if k in held_out]
    return train, test


def of_files(
    info: StreamInfo,
    options: GivenOptions,
    source: Folder,
    files: ByClass,
    train: ByClass,
    test: ByClass,
    known_by: object = None,
) -> Stream:
    """Make a stream of image files, all of which are in `files`. `known_by` is how they are divided
    among classes and splits, where their names and the held-out share leave that open."""
    order = choose_order(list(files), options.classes_per_task, options.tasks)
    size = options.image_size or info.image_size
    content = source.digest(list(chain.from_iterable(files.values())), FILE_LIMIT, options.report)
    known_by = options.held_out if known_by is None else known_by

    def part(by_class: ByClass) -> PlannedSplit:
        return PlannedSplit.of(by_class.values(), partial(decode, source, size))

    dataset = cached(
        info.name,
        hashlib.sha256(f"{content} {size} {known_by}".encode()).hexdigest(),
        lambda: Plan(shown(source.path), (3, size, size), tuple(files), part(train), part(test)),
        options.report,
        options.warn,
    )
    return make_stream(
        info.name,
        dataset,
        order,
        own_order=True,
        pad=size // 8,
        flip=True,
        memory=info.memory,
    )


def image_folder(data: Path | None) -> Folder:
    """Return the folder of class folders that the user gave."""
    contents = "one folder of images for each class"
    if data is None:
        raise UserError(
            f"the stream 'folder' needs images: give a folder that holds {contents}", option="data"
        )
    with read_errors(data):
        check_folder(data, contents)
    return Folder(data)
