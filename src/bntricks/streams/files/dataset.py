"""A data set in memory: the form that images of any source are brought into before tasks are made
of them. Classes stand one after the other, each in its original order, so that consecutive classes
are a slice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

IMAGES_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Part:
    """The training or the test images: x is uint8 [N, C, H, W], counts[k] of them of class k."""

    x: Tensor
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dataset:
    """All images of a data set, and a hash of them at their native size."""

    train: Part
    test: Part
    class_names: tuple[str, ...]
    fingerprint: str


def start_fingerprint(
    shape: Sequence[int],
    class_names: Sequence[str],
    train: Sequence[int],
    test: Sequence[int],
) -> hashlib._Hash:
    """A hash that still has to be fed the training pixels, then the test pixels.

    It knows the labels by the counts: in class order, they say the same.
    """
    header = json.dumps([list(shape), list(class_names), list(train), list(test)])
    return hashlib.sha256(header.encode())


def finish_fingerprint(digest: hashlib._Hash) -> str:
    return digest.hexdigest()[:16]


def in_memory(
    train: Part, test: Part, class_names: Sequence[str], size: int | None = None
) -> Dataset:
    """A data set that needs no cache, because it is in memory already. With a size, its images are
    resized to squares; the fingerprint is that of the images as they are given."""
    digest = start_fingerprint(train.x.shape[1:], class_names, train.counts, test.counts)
    for part in (train, test):
        digest.update(part.x.contiguous().numpy().data)
    if size is not None and tuple(train.x.shape[2:]) != (size, size):
        train, test = (
            Part(torch.cat(list(resized(part.x, size))), part.counts) for part in (train, test)
        )
    return Dataset(train, test, tuple(class_names), finish_fingerprint(digest))


def resized(x: Tensor, size: int) -> Iterator[Tensor]:
    """Blocks of the images of x as size × size squares, each new pixel the mean of its area."""
    for block in torch.split(x, IMAGES_AT_ONCE):
        area = interpolate(block.to(torch.float32), size=(size, size), mode="area")
        yield area.round_().to(torch.uint8)


def scaled_pad(pad: int, native: int, size: int | None) -> int:
    """The padding that shifts a resized image by as much of its width as pad does natively."""
    return pad if size is None else max(1, round(pad * size / native))
