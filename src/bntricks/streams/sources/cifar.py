"""seq-cifar10, seq-cifar100 and seq-cifar100-20, from the official *binary* distribution, whole or
cut down: a file is a row of records, each the label bytes and then the R, G, B planes of 32×32.
Classes arrive by ascending label, as in the paper. No pickle is ever loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bntricks.errors import UserError
from bntricks.streams.files.archive import Tar
from bntricks.streams.files.cache import Plan, PlannedPart, cached
from bntricks.streams.files.decoded import scaled_pad
from bntricks.streams.files.source import Folder, Layout, find, shown
from bntricks.streams.registry import Known, Options, stream
from bntricks.streams.stream import Stream
from bntricks.streams.tasks import arrange, in_blocks_of

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
PAD = 4
FILE_LIMIT = 200_000_000


@dataclass(frozen=True, slots=True)
class Cifar:
    """One of the two data sets: its files, its record, its published mean and deviation."""

    name: str
    layout: Layout[Tar]
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str
    classes: int
    label_bytes: int
    """The label is the last of them; CIFAR-100 has the coarse one first."""
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def members(self) -> tuple[str, ...]:
        return (*self.train, *self.test, self.names)


CIFAR_10 = Cifar(
    name="cifar-10",
    layout=Layout("cifar-10-batches-bin", "cifar-10-binary.tar.gz", "data_batch_1.bin", Tar),
    train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    test=("test_batch.bin",),
    names="batches.meta.txt",
    classes=10,
    label_bytes=1,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2615),
)
CIFAR_100 = Cifar(
    name="cifar-100",
    layout=Layout("cifar-100-binary", "cifar-100-binary.tar.gz", "fine_label_names.txt", Tar),
    train=("train.bin",),
    test=("test.bin",),
    names="fine_label_names.txt",
    classes=100,
    label_bytes=2,
    mean=(0.5071, 0.4867, 0.4408),
    std=(0.2675, 0.2565, 0.2761),
)


@stream(
    "seq-cifar10",
    summary="CIFAR-10 in tasks of two classes (the paper's first benchmark)",
    tasks="5 × 2",
    image_size=32,
    memory=500,
    official=(50_000, 10_000),
    data="download",
)
def seq_cifar10(known: Known, options: Options) -> Stream:
    return _open(CIFAR_10, 2, known, options)


@stream(
    "seq-cifar100",
    summary="CIFAR-100 in tasks of ten classes",
    tasks="10 × 10",
    image_size=32,
    memory=1000,
    official=(50_000, 10_000),
    data="download",
)
def seq_cifar100(known: Known, options: Options) -> Stream:
    return _open(CIFAR_100, 10, known, options)


@stream(
    "seq-cifar100-20",
    summary="CIFAR-100 in twenty tasks of five classes, a longer stream",
    tasks="20 × 5",
    image_size=32,
    memory=1000,
    official=(50_000, 10_000),
    data="download",
)
def seq_cifar100_20(known: Known, options: Options) -> Stream:
    return _open(CIFAR_100, 5, known, options)


def _open(cifar: Cifar, per_task: int, known: Known, options: Options) -> Stream:
    found = find(options.data, cifar.layout, lambda _: cifar.members, options.report)
    size = None if options.image_size == known.image_size else options.image_size
    decoded = cached(
        cifar.name,
        found.digest,
        lambda: _plan(cifar, found.open()),
        options.report,
        size=size,
    )
    order = in_blocks_of(cifar.classes, per_task)
    tasks, class_names = arrange(decoded, order, options.images_per_class)
    return Stream(
        known.name,
        tasks,
        class_names,
        cifar.mean,
        cifar.std,
        decoded.fingerprint,
        pad=scaled_pad(PAD, known.image_size, size),
        flip=True,
        memory=known.memory,
        official=known.official,
    )


def _plan(cifar: Cifar, source: Folder | Tar) -> Plan:
    files = source.read_all(cifar.members, FILE_LIMIT)
    names = tuple(files[cifar.names].decode("utf-8", "replace").split())
    where = shown(source.path)
    if len(names) != cifar.classes:
        raise UserError(
            f"{cifar.names} in {where} names {len(names)} classes, not {cifar.classes}: "
            "fetch the data again"
        )
    return Plan(
        where,
        SHAPE,
        names,
        _part(cifar, {name: files[name] for name in cifar.train}, where),
        _part(cifar, {name: files[name] for name in cifar.test}, where),
    )


def _part(cifar: Cifar, files: dict[str, bytes], where: str) -> PlannedPart:
    records = [_records(cifar, name, raw, where) for name, raw in files.items()]
    labels = np.concatenate([rows[:, cifar.label_bytes - 1] for rows in records])
    counts = np.bincount(labels, minlength=cifar.classes)
    return PlannedPart(tuple(counts.tolist()), _by_class(records, cifar))


def _by_class(records: Sequence[NDArray[np.uint8]], cifar: Cifar) -> Iterator[NDArray[np.uint8]]:
    for label in range(cifar.classes):
        for rows in records:
            chosen = rows[rows[:, cifar.label_bytes - 1] == label]
            yield chosen[:, cifar.label_bytes :].reshape(-1, *SHAPE)


def _records(cifar: Cifar, name: str, raw: bytes, where: str) -> NDArray[np.uint8]:
    record = cifar.label_bytes + PIXELS
    if len(raw) % record:
        raise UserError(
            f"{name} in {where} is cut off: {len(raw):,} bytes are not a whole number of "
            f"{record:,}-byte records; fetch it again"
        )
    rows = np.frombuffer(raw, dtype=np.uint8).reshape(-1, record)
    labels = rows[:, cifar.label_bytes - 1]
    wrong = np.flatnonzero(labels >= cifar.classes)
    if len(wrong):
        raise UserError(
            f"{name} in {where} has the label {labels[wrong[0]]} in record {wrong[0]}, "
            f"where 0 to {cifar.classes - 1} are allowed: fetch it again"
        )
    return rows
