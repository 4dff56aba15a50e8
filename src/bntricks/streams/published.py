"""Published data sets: read from the folder or archive in `data`, or else downloaded; decoded once
into the cache; and cut into tasks with an equal number of classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from bntricks.errors import UserError
from bntricks.files import reading, shown
from bntricks.streams.files.archive import Folder
from bntricks.streams.files.cache import Plan, cached
from bntricks.streams.files.dataset import scaled_pad
from bntricks.streams.files.download import fetch
from bntricks.streams.files.progress import Report
from bntricks.streams.registry import Options, StreamInfo, stream
from bntricks.streams.stream import Stream
from bntricks.streams.tasks import Moments, in_blocks_of, make_stream


class Archive(Protocol):
    """A single file that holds a data set."""

    path: Path

    def digest(self, report: Report) -> str: ...


A = TypeVar("A", bound=Archive)


@dataclass(frozen=True, slots=True)
class Published(Generic[A]):
    """A data set at its official host, the names of its files, and how they are decoded."""

    name: str
    """Of its entries in the cache."""
    folder: str
    """Of the unpacked files; inside the archive, the same folder is on top."""
    archive: str
    url: str
    md5: str
    marker: str
    """A file by which the unpacked folder is recognised under any name."""
    open_archive: Callable[[Path, str], A]
    members: Callable[[Folder], Sequence[str]]
    """The files in the unpacked folder that images, labels and names are read from."""
    plan: Callable[[Folder | A], Plan]
    classes: int
    image_size: int
    pad: int
    """At the native size."""
    official: tuple[int, int]
    """Training and test images of the full data set."""
    moments: Moments


def published_stream(
    name: str, published: Published[A], *, classes_per_task: int, memory: int, summary: str
) -> None:
    """Register a stream of this data set, with its classes in the order of its plan."""
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
    def open_published(info: StreamInfo, options: Options) -> Stream:
        digest, open_source = _find(published, options.data, options.report)
        size = None if options.image_size == info.image_size else options.image_size
        dataset = cached(
            published.name, digest, lambda: published.plan(open_source()), options.report, size=size
        )
        return make_stream(
            name,
            dataset,
            order,
            images_per_class=options.images_per_class,
            moments=published.moments,
            pad=scaled_pad(published.pad, info.image_size, size),
            flip=True,
            memory=memory,
            official=published.official,
        )


def check_folder(data: Path, contents: str) -> None:
    """Refuse a data folder that is none; `contents` says what it should hold."""
    if not data.is_dir():
        problem = "is not a folder" if data.exists() else "does not exist"
        raise UserError(
            f"the data folder {shown(data)} {problem}: give one that holds {contents}",
            option="data",
        )


def _find(
    published: Published[A], data: Path | None, report: Report
) -> tuple[str, Callable[[], Folder | A]]:
    """A hash of the content, and how to get at it: what is in the cache need not be downloaded."""
    if data is None:
        name, folder = published.archive, published.folder
        url, md5 = published.url, published.md5
        return md5, lambda: published.open_archive(fetch(name, url, md5, report), folder)
    source = _locate(published, data)
    if isinstance(source, Folder):
        return source.digest(published.members(source), report), lambda: source
    return source.digest(report), lambda: source


def _locate(published: Published[A], data: Path) -> Folder | A:
    """The folder or archive that `data` is, or holds."""
    folder, archive = published.folder, published.archive
    contents = f"{folder}/ or {archive}, or leave it out to download"
    with reading(data):
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
