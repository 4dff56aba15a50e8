"""Decoded data sets in the cache: raw uint8 files that are mapped into memory, so that processes
share their pages and nothing is copied. An entry is named after the content it was decoded from,
is built once, appears whole or not at all, and is built again when its sizes are wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bntricks.errors import UserError
from bntricks.files import sync
from bntricks.streams.files.build import building, cache_folder, publish
from bntricks.streams.files.dataset import (
    Dataset,
    Part,
    finish_fingerprint,
    resized,
    start_fingerprint,
)
from bntricks.streams.files.progress import Report

FORMAT = 1
"""Raised when decoding or the files change, so that old entries are no longer used."""


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """Images still to be decoded: blocks of [n, C, H, W] in class order, counts[k] of class k."""

    counts: tuple[int, ...]
    blocks: Iterable[NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be decoded into an entry, and where it comes from, for messages."""

    origin: str
    shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    train: PlannedPart
    test: PlannedPart
    fingerprint: str | None = None
    """That of the native images, if these are resized ones."""


def cached(
    name: str, digest: str, plan: Callable[[], Plan], report: Report, *, size: int | None = None
) -> Dataset:
    """The data set whose files have this digest, at its native size or resized.

    `plan` is called, and its blocks are decoded, only if there is no whole entry yet.
    """
    key = f"{name}-{digest[:32]}-v{FORMAT}"

    def native() -> Dataset:
        return _entry(key, plan, f"decoding {name}", report)

    if size is None:
        return native()
    resizing = f"resizing {name} to {size}×{size}"
    return _entry(f"{key}-{size}px", lambda: _resizing(native(), size, name), resizing, report)


def _resizing(native: Dataset, size: int, name: str) -> Plan:
    def planned(part: Part) -> PlannedPart:
        return PlannedPart(part.counts, (block.numpy() for block in resized(part.x, size)))

    return Plan(
        origin=name,
        shape=(native.train.x.shape[1], size, size),
        class_names=native.class_names,
        train=planned(native.train),
        test=planned(native.test),
        fingerprint=native.fingerprint,
    )


def _entry(key: str, plan: Callable[[], Plan], what: str, report: Report) -> Dataset:
    folder = cache_folder() / "images" / key
    dataset = _load(folder)
    if dataset is None:
        with building(folder, report) as partial:
            dataset = _load(folder)  # another process may have built it meanwhile
            if dataset is None:
                _write(partial, plan(), what, report)
                publish(partial, folder)
                dataset = _load(folder)
    if dataset is None:
        raise UserError(
            f"the cache entry {folder} was damaged as soon as it was written: "
            "check the disk, or set BNT_CACHE to a folder on another one"
        )
    return dataset


def _write(folder: Path, plan: Plan, what: str, report: Report) -> None:
    _check_classes(plan)
    digest = start_fingerprint(plan.shape, plan.class_names, plan.train.counts, plan.test.counts)
    total = sum(plan.train.counts) + sum(plan.test.counts)
    done = 0
    report(what, done, total)
    folder.mkdir()
    for name, part in (("train", plan.train), ("test", plan.test)):
        # Plain writes: on a full disk they raise, where a mapped page would kill the process.
        with (folder / f"{name}.u8").open("wb") as file:
            for block in part.blocks:
                pixels = np.ascontiguousarray(block)
                file.write(pixels.data)
                digest.update(pixels.data)
                done += len(pixels)
                report(what, done, total)
        sync(folder / f"{name}.u8")
    meta = {
        "shape": plan.shape,
        "class_names": plan.class_names,
        "train": plan.train.counts,
        "test": plan.test.counts,
        "fingerprint": plan.fingerprint or finish_fingerprint(digest),
    }
    (folder / "meta.json").write_text(json.dumps(meta))
    sync(folder / "meta.json")
    sync(folder)


def _check_classes(plan: Plan) -> None:
    for part, counts in (("training", plan.train.counts), ("test", plan.test.counts)):
        empty = [name for name, count in zip(plan.class_names, counts, strict=True) if not count]
        if empty:
            more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
            raise UserError(
                f"class {empty[0]!r}{more} has no {part} images in {plan.origin}: "
                "every class needs at least one"
            )


def _load(folder: Path) -> Dataset | None:
    """The entry, or None if it is missing or not whole."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        shape = tuple(meta["shape"])
        names = tuple(meta["class_names"])
        train = _map(folder / "train.u8", shape, meta["train"], names)
        test = _map(folder / "test.u8", shape, meta["test"], names)
        return Dataset(train, test, names, str(meta["fingerprint"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _map(path: Path, shape: tuple[int, ...], counts: list[int], names: tuple[Any, ...]) -> Part:
    if len(shape) != 3 or len(counts) != len(names) or min(counts) < 1:
        raise ValueError(path)
    if path.stat().st_size != sum(counts) * prod(shape):
        raise ValueError(path)
    # Copy-on-write: torch gets the writable array it wants, the file stays as it is.
    pixels = np.memmap(path, dtype=np.uint8, mode="c", shape=(sum(counts), *shape))
    return Part(torch.from_numpy(pixels), tuple(counts))
