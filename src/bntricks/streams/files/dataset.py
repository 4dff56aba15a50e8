"""Decoded data sets, before they are cut into tasks. Images are sorted by class and keep their
order within a class, so consecutive classes are a slice.

In the cache they are raw uint8 files that are mapped into memory, so processes share their pages
and nothing is copied. An entry is named after the content it was decoded from, is built once,
appears whole or not at all, and carries a checksum: a process that opens it reads every byte once,
and builds it again if a single bit has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from bntricks.errors import UserError
from bntricks.files import parse_json, sync, text_bytes, write_atomically
from bntricks.streams.files.cache import built_once, cache_folder
from bntricks.streams.files.image import Pixels, in_blocks
from bntricks.streams.files.progress import OnProgress, Warn

FORMAT = 1
"""Increased when decoding or the files change, so that old entries are no longer used."""
IMAGES_AT_ONCE = 1024

META, KINDS = "meta.json", ("train", "test")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Split:
    """The training or the test samples, counts[k] of them of class k: x is uint8 [N, C, H, W], or
    float32 [N, ...]."""

    x: Tensor
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dataset:
    """All images of a data set, and a hash of them at their native size."""

    train: Split
    test: Split
    class_names: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class PlannedSplit:
    """Images to be decoded: blocks of [n, C, H, W] in class order, counts[k] of class k."""

    counts: tuple[int, ...]
    blocks: Iterable[Pixels]

    @classmethod
    def of(cls, by_class: Collection[Sequence[T]], decode: Callable[[T], Pixels]) -> PlannedSplit:
        """Decode every image by itself, in threads."""
        images = list(chain.from_iterable(by_class))
        return cls(tuple(map(len, by_class)), in_blocks(images, decode))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is decoded into an entry, and its origin for messages."""

    origin: str
    shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    train: PlannedSplit
    test: PlannedSplit
    fingerprint: str | None = None
    """The fingerprint of the native images, if these are resized."""


def in_memory(train: Split, test: Split, class_names: Sequence[str]) -> Dataset:
    """Make a data set of images that are in memory, and need no cache."""
    kind = [] if train.x.dtype == torch.uint8 else [str(train.x.dtype)]
    shape = [*train.x.shape[1:], *kind]
    digest = _start_digest(shape, class_names, train.counts, test.counts)
    for part in (train, test):
        digest.update(part.x.contiguous().numpy().data)
    return Dataset(train, test, tuple(class_names), digest.hexdigest()[:16])


def cached(
    name: str,
    digest: str,
    plan: Callable[[], Plan],
    report: OnProgress,
    warn: Warn,
    *,
    size: int | None = None,
) -> Dataset:
    """Return the data set whose files have this digest, at its native size or resized. `plan` is
    called, and its blocks are decoded, only if the cache has no valid entry."""

    def entry(ending: str, plan: Callable[[], Plan], what: str) -> Dataset:
        folder = cache_folder() / "images" / f"{name}-{digest[:32]}-v{FORMAT}{ending}"
        return built_once(
            folder, _load, lambda partial: _write(partial, plan(), what, report), report, warn
        )

    def resizing(size: int) -> Plan:
        native = cached(name, digest, plan, report, warn)
        train, test = (
            PlannedSplit(part.counts, (block.numpy() for block in _resized(part.x, size)))
            for part in (native.train, native.test)
        )
        shape = (native.train.x.shape[1], size, size)
        return Plan(name, shape, native.class_names, train, test, native.fingerprint)

    if size is None:
        return entry("", plan, f"decoding {name}")
    return entry(f"-{size}px", lambda: resizing(size), f"resizing {name} to {size}×{size}")


def scaled_pad(pad: int, native: int, size: int | None) -> int:
    """Scale the padding, so that it is the same share of a resized image's width."""
    return pad and (pad if size is None else max(1, round(pad * size / native)))


def _start_digest(
    shape: Sequence[object], class_names: Sequence[str], train: Sequence[int], test: Sequence[int]
) -> hashlib._Hash:
    """Start a hash, to be updated with the training pixels and then the test pixels. In class
    order, the counts stand for the labels."""
    header = json.dumps([list(shape), list(class_names), list(train), list(test)])
    return hashlib.sha256(header.encode())


def resized(x: Tensor, size: int) -> Tensor:
    """Resize images to squares, each new pixel the mean of its area."""
    return torch.cat(list(_resized(x, size)))


def _resized(x: Tensor, size: int) -> Iterator[Tensor]:
    for block in torch.split(x, IMAGES_AT_ONCE):
        area = interpolate(block.to(torch.float32), size=(size, size), mode="area")
        yield area if x.is_floating_point() else area.round_().to(torch.uint8)


def _write(folder: Path, plan: Plan, what: str, report: OnProgress) -> Path:
    splits = {"train": plan.train, "test": plan.test}
    for kind, split in splits.items():
        empty = [k for k, n in zip(plan.class_names, split.counts, strict=True) if not n]
        if empty:
            more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
            raise UserError(
                f"class {empty[0]!r}{more} has no {'training' if kind == 'train' else 'test'} "
                f"images in {plan.origin}: every class needs at least one"
            )
    counts = {kind: split.counts for kind, split in splits.items()}
    digest = _start_digest(plan.shape, plan.class_names, **counts)
    done, total = 0, sum(map(sum, counts.values()))
    report(what, done, total)
    folder.mkdir()
    for kind, split in splits.items():
        # Plain writes: on a full disk they raise, where a mapped page would kill the process.
        with (folder / _pixels(kind)).open("wb") as file:
            for block in split.blocks:
                pixels = np.ascontiguousarray(block)
                file.write(pixels.data)
                digest.update(pixels.data)
                done += len(pixels)
                report(what, done, total)
        sync(folder / _pixels(kind))
    fingerprint = plan.fingerprint or digest.hexdigest()[:16]
    meta = {"shape": plan.shape, "class_names": plan.class_names, **counts}
    known_by = {"fingerprint": fingerprint, "checksum": _checksum(digest, fingerprint)}
    write_atomically(folder / META, json.dumps(meta | known_by).encode())
    return folder


def _checksum(digest: hashlib._Hash, fingerprint: str) -> str:
    """Compute the checksum of a whole entry. `digest` covers all but the fingerprint, which is that
    of the native images."""
    return hashlib.sha256(f"{digest.hexdigest()} {fingerprint}".encode()).hexdigest()


def _load(folder: Path) -> Dataset | None:
    """Load the entry, or return None if it is missing or damaged. Entries of earlier versions have
    no checksum and count as damaged."""

    def part(kind: str) -> Split:
        counts = tuple(meta[kind])
        shape = (sum(counts), *meta["shape"])
        # Copy-on-write: torch gets the writable array it wants, the file stays as it is.
        pixels = np.memmap(folder / _pixels(kind), np.uint8, mode="c", shape=shape)
        return Split(torch.from_numpy(pixels), counts)

    try:
        states = [(folder / name).stat() for name in (META, *map(_pixels, KINDS))]
        meta = _verified(folder, tuple((s.st_ino, s.st_size, s.st_mtime_ns) for s in states))
        return Dataset(
            part("train"), part("test"), tuple(meta["class_names"]), str(meta["fingerprint"])
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


@lru_cache(maxsize=64)
def _verified(folder: Path, state: tuple[tuple[int, int, int], ...]) -> dict[str, Any]:
    """Read every byte of an entry and return its metadata, or raise if anything is wrong. Cached
    until the state of its files changes."""
    meta: dict[str, Any] = parse_json(text_bytes(folder / META))
    shape, names, counts = meta["shape"], meta["class_names"], [meta[kind] for kind in KINDS]
    digest = _start_digest(shape, names, *counts)
    for kind, (_, size, _), of_class in zip(KINDS, state[1:], counts, strict=True):
        if len(of_class) != len(names) or min(of_class) < 1 or size != sum(of_class) * prod(shape):
            raise ValueError(kind)
        # Read, not mapped: pages of a mapping would count as memory of this process.
        with (folder / _pixels(kind)).open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    if meta["checksum"] != _checksum(digest, meta["fingerprint"]):
        raise ValueError("the checksum does not match")
    return meta


def _pixels(kind: str) -> str:
    return f"{kind}.u8"
