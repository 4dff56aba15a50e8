"""Image files straight into memory, as someone who teaches or asks a model gives them: a folder
with a folder for each class, or any files and folders. A file that cannot be read is named, and
refused or left out, as asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bntricks.errors import UserError
from bntricks.streams.files.image import Pixels, Unreadable, in_blocks, square_rgb
from bntricks.streams.files.progress import Report, silent
from bntricks.streams.files.source import Folder, shown
from bntricks.streams.sources.folder import EXTENSIONS, FILE_LIMIT, images_by_class


@dataclass(frozen=True, slots=True)
class Photos:
    """Decoded images, the file each came from, and a line for each file that was left out."""

    x: Tensor  # uint8 [N, 3, size, size]
    files: tuple[Path, ...]
    unreadable: tuple[str, ...] = ()


def read_files(
    files: Sequence[Path], size: int, *, skip: bool = False, report: Report = silent
) -> Photos:
    """These image files as squares. With `skip`, what cannot be read is left out."""
    wrong: dict[Path, str] = {}

    def decode(file: Path) -> Pixels:
        try:
            return square_rgb(_content(file), size)
        except Unreadable as error:
            wrong[file] = f"cannot read the image {shown(file)}: {shown(str(error))}"
            if not skip:
                raise UserError(
                    f"{wrong[file]}; move it away, or leave such files out with --skip-unreadable"
                ) from error
            return np.zeros((3, size, size), np.uint8)

    blocks: list[Pixels] = []
    for block in in_blocks(files, decode):
        blocks.append(block)
        report("decoding images", sum(map(len, blocks)), len(files))
    x = np.concatenate(blocks) if blocks else np.zeros((0, 3, size, size), np.uint8)
    whole = np.array([file not in wrong for file in files], dtype=bool)
    return Photos(
        torch.from_numpy(x if whole.all() else x[whole]),
        tuple(file for file in files if file not in wrong),
        tuple(wrong[file] for file in files if file in wrong),
    )


def read_classes(
    folder: Path, size: int, *, skip: bool = False, report: Report = silent
) -> tuple[Mapping[str, Tensor], tuple[str, ...]]:
    """The images of each class folder, nested folders included, and a line for each file that was
    left out. Hidden files and files that do not end like images are no part of it."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise UserError(f"{shown(folder)} {what}: give one with a folder of images for each class")
    names = images_by_class(Folder(folder))
    files = {name: [folder / file for file in found] for name, found in names.items()}
    photos = read_files(list(chain.from_iterable(files.values())), size, skip=skip, report=report)
    kept = set(photos.files)
    counts = [sum(file in kept for file in found) for found in files.values()]
    return dict(zip(files, torch.split(photos.x, counts), strict=True)), photos.unreadable


def find_images(given: Sequence[Path]) -> list[Path]:
    """Files as they are given, and in place of a folder all images in it, sorted."""
    found: list[Path] = []
    for path in given:
        if not path.is_dir():
            found.append(path)
            continue
        inside = [n for n in Folder(path).names(".") if n.lower().endswith(EXTENSIONS)]
        if not inside:
            raise UserError(f"{shown(path)} holds no images ({' '.join(EXTENSIONS)})")
        found.extend(path / name for name in inside)
    return found


def _content(file: Path) -> bytes:
    try:
        if not file.is_file():  # opening a pipe would wait for ever
            raise Unreadable("it is not a file" if file.exists() else "there is no such file")
        size = file.stat().st_size
        if size > FILE_LIMIT:
            raise Unreadable(f"it is {size:,} bytes, where at most {FILE_LIMIT:,} are read")
        return file.read_bytes()
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
