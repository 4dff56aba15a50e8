"""Images class by class, the form every source of images is brought into before tasks are made of
it: classes stand one after the other, each in its original order, so a run of classes is a slice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Part:
    """The training or the test images: x is uint8 [N, C, H, W], counts[k] of them of class k."""

    x: Tensor
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decoded:
    """All images of a data set, and the hash of what they were at their native size."""

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

    Labels are in it as the counts: in class order, they say the same.
    """
    head = json.dumps([list(shape), list(class_names), list(train), list(test)])
    return hashlib.sha256(head.encode())


def finish_fingerprint(digest: hashlib._Hash) -> str:
    return digest.hexdigest()[:16]


def in_memory(train: Part, test: Part, class_names: Sequence[str]) -> Decoded:
    """Images that need no cache, because they are in memory already."""
    digest = start_fingerprint(train.x.shape[1:], class_names, train.counts, test.counts)
    for part in (train, test):
        digest.update(part.x.contiguous().numpy().data)
    return Decoded(train, test, tuple(class_names), finish_fingerprint(digest))


def resized(x: Tensor, size: int) -> Iterator[Tensor]:
    """Blocks of the images of x as size × size squares, each new pixel the mean of its area."""
    for start in range(0, len(x), AT_ONCE):
        block = x[start : start + AT_ONCE].to(torch.float32)
        area = interpolate(block, size=(size, size), mode="area")
        yield area.round_().to(torch.uint8)


def resize_in_memory(decoded: Decoded, size: int | None) -> Decoded:
    """The same images as size × size squares, under their native fingerprint."""
    if size is None or tuple(decoded.train.x.shape[2:]) == (size, size):
        return decoded
    train, test = (
        Part(torch.cat(list(resized(part.x, size))), part.counts)
        for part in (decoded.train, decoded.test)
    )
    return Decoded(train, test, decoded.class_names, decoded.fingerprint)


def scaled_pad(pad: int, native: int, size: int | None) -> int:
    """The padding that shifts a resized image by as much of its width as pad does natively."""
    if size is None or pad == 0:
        return pad
    return max(1, round(pad * size / native))
