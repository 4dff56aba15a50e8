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
    order = choose_order(list(files), options.classes_per_task, options.tasks)
    size = options.image_size or info.image_size
    content = source.digest(list(chain.from_iterable(files.values())), FILE_LIMIT, options.report)
    dataset = cached(
        "folder",
        hashlib.sha256(f"{content} {size} {options.held_out}".encode()).hexdigest(),
        lambda: _plan(source, files, size, options.held_out),
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


def _plan(source: Folder, files: dict[str, list[str]], size: int, share: float) -> Plan:
    def part(testing: bool) -> PlannedSplit:
        by_class = []
        for names in files.values():
            held_out = held_out_positions(len(names), share)
            by_class.append([name for k, name in enumerate(names) if (k in held_out) == testing])
        return PlannedSplit.of(by_class, partial(decode, source, size))

    return Plan(
        shown(source.path), (3, size, size), tuple(files), part(testing=False), part(testing=True)
    )
