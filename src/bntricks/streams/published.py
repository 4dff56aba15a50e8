"""Published data sets: read from the folder or archive in `data`, or else downloaded; decoded once
into the cache; and cut into tasks with an equal number of classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bntricks.errors import UserError
from bntricks.files import read_errors, shown
from bntricks.streams.files.archive import Folder, Tar, Zip, archive_digest
from bntricks.streams.files.dataset import Plan, cached, scaled_pad
from bntricks.streams.files.download import fetch
from bntricks.streams.registry import OpenOptions, StreamInfo, stream
from bntricks.streams.stream import Stream
from bntricks.streams.tasks import Moments, in_blocks_of, make_stream


@dataclass(frozen=True, slots=True)
class Published:
    """A data set at its official host, the names of its files, and how they are decoded."""

    name: str
    """The name of its entries in the cache."""
    folder: str
    """Where the unpacked files are, and the top folder inside the archive."""
    archive: str
    url: str
    md5: str
    marker: str
    """A file by which the unpacked folder is recognised under any name."""
    open_archive: type[Tar] | type[Zip]
    members: Callable[[Folder], Sequence[str]]
    """The files in the unpacked folder that are read."""
    file_limit: int
    """Maximum size of such a file in bytes."""
    plan: Callable[[Any], Plan]
    """Makes a plan from a `Folder`, or from an opened archive."""
    classes: int
    image_size: int
    pad: int
    """Of images at their native size."""
    official: tuple[int, int]
    """Training and test images of the full data set."""
    moments: Moments


def published_stream(
    name: str, published: Published, *, classes_per_task: int, memory: int, summary: str
) -> None:
    """Register a stream of this data set, with classes in the order of its plan."""
    order = in_blocks_of(published.classes, classes_per_task)

    @stream(
        name,
        summary=summary,
        tasks=f"{len(order)} × {classes_per_task}",
        image_size=published.image_size,
        memory=memory,
        official=published.official,
        data="download",
    )
    def open_published(info: StreamInfo, options: OpenOptions) -> Stream:
        report, warn, size = options.report, options.warn, options.image_size
        if size == info.image_size:
            size = None

        def plan() -> Plan:
            if source is not None:
                return published.plan(source)
            archive = fetch(published.archive, published.url, published.md5, report, warn)
            return published.plan(published.open_archive(archive, published.folder))

        source = None if options.data is None else _locate(published, options.data)
        if source is None:  # it may be in the cache already
            digest = published.md5
        elif isinstance(source, Folder):
            digest = source.digest(published.members(source), published.file_limit, report)
        else:
            digest = archive_digest(source.path, report)
        return make_stream(
            name,
            cached(published.name, digest, plan, report, warn, size=size),
            order,
            moments=published.moments,
            pad=scaled_pad(published.pad, info.image_size, size),
            flip=True,
            memory=memory,
            official=published.official,
        )


def check_folder(data: Path, contents: str) -> None:
    """Refuse a data folder that is missing or a file; `contents` says what it should hold."""
    if not data.is_dir():
        problem = "is not a folder" if data.exists() else "does not exist"
        raise UserError(
            f"the data folder {shown(data)} {problem}: give one that holds {contents}",
            option="data",
        )


def _locate(published: Published, data: Path) -> Folder | Tar | Zip:
    """Find the data set's folder or archive: `data` itself, or in it."""
    folder, archive = published.folder, published.archive
    contents = f"{folder}/ or {archive}, or leave it out to download"
    with read_errors(data):
        if data.is_file() and data.name.endswith(Path(archive).suffix):
            return published.open_archive(data, folder)
        check_folder(data, contents)
        if (data / folder).is_dir():
            return Folder(data / folder)
        if data.name == folder or (data / published.marker).is_file():
            return Folder(data)
        if (data / archive).is_file():
            return published.open_archive(data / archive, folder)
    raise UserError(
        f"{shown(data)} does not hold the data set: give a folder with {contents}", option="data"
    )
