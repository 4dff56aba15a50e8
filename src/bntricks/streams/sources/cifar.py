"""seq-cifar10, seq-cifar100 and seq-cifar100-20, from the official *binary* distribution, whole or
cut down: a file is a row of records, each the label bytes and then the R, G, B planes of 32×32.
Classes arrive by ascending label, as in the paper. No pickle is ever loaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bntricks.errors import UserError
from bntricks.files import shown
from bntricks.streams.files.archive import Folder, Tar
from bntricks.streams.files.dataset import Plan, PlannedSplit
from bntricks.streams.published import Published, published_stream
from bntricks.streams.tasks import Moments

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
FILE_LIMIT = 200_000_000
HOST = "https://www.cs.toronto.edu/~kriz"

Records = NDArray[np.uint8]
"""[N, label bytes + pixels]"""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one of the two data sets, and their records."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str
    classes: int
    label_bytes: int
    """In CIFAR-100 the coarse label, and then the label."""

    @property
    def members(self) -> tuple[str, ...]:
        return (*self.train, *self.test, self.names)

    def labels(self, records: Records) -> NDArray[np.uint8]:
        return records[:, self.label_bytes - 1]


def _plan(files: Files, source: Folder | Tar) -> Plan:
    contents = source.read_all(files.members, FILE_LIMIT)
    names = tuple(contents[files.names].decode("utf-8", "replace").split())
    origin = shown(source.path)
    if len(names) != files.classes:
        raise UserError(
            f"{files.names} in {origin} names {len(names)} classes, not {files.classes}: "
            "fetch the data again"
        )

    def part(members: Sequence[str]) -> PlannedSplit:
        records = [_records(files, name, contents[name], origin) for name in members]
        labels = np.concatenate([files.labels(rows) for rows in records])
        counts = np.bincount(labels, minlength=files.classes)
        by_class = (
            rows[files.labels(rows) == label, files.label_bytes :].reshape(-1, *SHAPE)
            for label in range(files.classes)
            for rows in records
        )
        return PlannedSplit(tuple(counts.tolist()), by_class)

    return Plan(origin, SHAPE, names, part(files.train), part(files.test))


def _records(files: Files, name: str, content: bytes, origin: str) -> Records:
    length = files.label_bytes + PIXELS
    if len(content) % length:
        raise UserError(
            f"{name} in {origin} is cut off: {len(content):,} bytes are not a whole number of "
            f"{length:,}-byte records; fetch it again"
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, length)
    labels = files.labels(records)
    wrong = np.flatnonzero(labels >= files.classes)
    if len(wrong):
        raise UserError(
            f"{name} in {origin} has the label {labels[wrong[0]]} in record {wrong[0]}, "
            f"where 0 to {files.classes - 1} are allowed: fetch it again"
        )
    return records


def _published(files: Files, folder: str, md5: str, marker: str, moments: Moments) -> Published:
    archive = f"cifar-{files.classes}-binary.tar.gz"
    return Published(
        name=f"cifar-{files.classes}",
        folder=folder,
        archive=archive,
        url=f"{HOST}/{archive}",
        md5=md5,
        marker=marker,
        open_archive=Tar,
        members=lambda _: files.members,
        file_limit=FILE_LIMIT,
        plan=partial(_plan, files),
        classes=files.classes,
        image_size=32,
        pad=4,
        official=(50_000, 10_000),
        moments=moments,
    )


CIFAR_10 = _published(
    Files(
        train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        test=("test_batch.bin",),
        names="batches.meta.txt",
        classes=10,
        label_bytes=1,
    ),
    folder="cifar-10-batches-bin",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    marker="data_batch_1.bin",
    moments=((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615)),
)
CIFAR_100 = _published(
    Files(("train.bin",), ("test.bin",), "fine_label_names.txt", classes=100, label_bytes=2),
    folder="cifar-100-binary",
    md5="03b5dce01913d631647c71ecec9e9cb8",
    marker="fine_label_names.txt",
    moments=((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
)
published_stream(
    "seq-cifar10",
    CIFAR_10,
    classes_per_task=2,
    memory=500,
    summary="CIFAR-10 in tasks of two classes (the paper's first benchmark)",
)
published_stream(
    "seq-cifar100",
    CIFAR_100,
    classes_per_task=10,
    memory=1000,
    summary="CIFAR-100 in tasks of ten classes",
)
published_stream(
    "seq-cifar100-20",
    CIFAR_100,
    classes_per_task=5,
    memory=1000,
    summary="CIFAR-100 in twenty tasks of five classes, a longer stream",
)
