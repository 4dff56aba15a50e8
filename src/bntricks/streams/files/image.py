"""From the bytes of an image file to pixels. Files are not trusted: formats are limited to plain
raster images, sizes are checked before decoding, and every failure is an Unreadable.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from bntricks.options import Interpolation

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
BLOCK_BYTES = 16 << 20

Pixels = NDArray[np.uint8]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Square:
    """How a photograph becomes a square: the middle of its centre square, resized."""

    size: int
    crop: float = 1.0
    """The share of the centre square's side that is kept."""
    interpolation: Interpolation = "area"
    """`area` means where the photograph is larger, bilinear where it is smaller. The others are
    Pillow's, which average over all pixels that a new one covers."""
    grey: bool = False
    """Brightness alone, in one channel."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return 1 if self.grey else 3, self.size, self.size

    @classmethod
    def of(cls, size: int | Square) -> Square:
        """A side alone stands for the whole centre square."""
        return cls(size) if isinstance(size, int) else size


class Unreadable(Exception):
    """The reason why an image cannot be used, for a message that names its file."""


def exact_rgb(raw: bytes, size: int) -> Pixels:
    """Decode a JPEG of size × size pixels to [3, size, size]; grey becomes RGB."""
    with _opened(raw, ("JPEG",)) as image:
        if image.size != (size, size):
            raise Unreadable(f"it is {image.width}×{image.height} pixels, not {size}×{size}")
        return planes(image.convert("RGB"))


def square_pixels(raw: bytes, size: int | Square) -> Pixels:
    """Decode any image, upright, and resize its centre square to [3, size, size], or to [1, size,
    size] of grey."""
    with _opened(raw, FORMATS) as image:
        return planes(squared(ImageOps.exif_transpose(image), Square.of(size)))


def squared(image: Image.Image, wanted: Square) -> Image.Image:
    """Resize the centre square of an image, in RGB or grey."""
    side, size = min(image.size), wanted.size
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = rgb(image.crop((left, top, left + side, top + side)))
    square = square.convert("L") if wanted.grey else square
    kept = side * wanted.crop
    if kept == size == side:
        return square
    if wanted.interpolation == "area":
        resampling = Image.Resampling.BOX if kept > size else Image.Resampling.BILINEAR
    else:
        resampling = Image.Resampling[wanted.interpolation.upper()]
    edge = (side - kept) / 2
    return square.resize((size, size), resampling, (edge, edge, edge + kept, edge + kept))


def in_blocks(items: Sequence[T], decode: Callable[[T], Pixels]) -> Iterator[Pixels]:
    """Decode in threads (Pillow releases the interpreter lock), in order, in blocks of bounded
    size."""
    at_once = 1
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        start = 0
        while start < len(items):
            # A filter is global to all threads, so it is set around them, not in them.
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                block = np.stack(list(pool.map(decode, items[start : start + at_once])))
            yield block
            start += len(block)
            at_once = max(1, min(256, BLOCK_BYTES // block[0].nbytes))


@contextmanager
def _opened(raw: bytes, formats: Sequence[str]) -> Iterator[Image.Image]:
    try:
        with Image.open(io.BytesIO(raw), formats=list(formats)) as image:
            yield image
    except Unreadable:
        raise
    except UnidentifiedImageError:
        raise Unreadable(f"it is none of {', '.join(formats)}") from None
    except Exception as error:  # a hostile or broken file makes Pillow raise nearly anything
        raise Unreadable(str(error).rstrip(".") or type(error).__name__) from error


def planes(image: Image.Image) -> Pixels:
    """Return the pixels of an image as [3, H, W], or [1, H, W] of grey."""
    return np.ascontiguousarray(np.atleast_3d(np.asarray(image)).transpose(2, 0, 1))


def rgb(image: Image.Image) -> Image.Image:
    """Convert an image to 8 bits a channel, over black where it is transparent."""
    if image.mode == "F":
        raise Unreadable("its pixels are floats of unknown range; save it with 8 bits")
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise Unreadable("its pixels have more than 16 bits; save it with 8 or 16 bits")
        return Image.fromarray(((values + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        black = Image.new("RGBA", image.size, (0, 0, 0, 255))
        black.alpha_composite(image.convert("RGBA"))
        return black.convert("RGB")
    return image.convert("RGB")
