"""Image files on disk: find them, alone or by class, and read them into memory as squares. A file
that cannot be read is named, and refused or left out, as the caller chooses.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bntricks.errors import UserError
from bntricks.files import read_errors, shown
from bntricks.streams.files.archive import Folder
from bntricks.streams.files.image import Pixels, Square, Unreadable, in_blocks, square_pixels
from bntricks.streams.files.progress import OnProgress, silent

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")
FILE_LIMIT = 256_000_000


@dataclass(frozen=True, slots=True)
class ImageFiles:
    """Decoded images, the file of each, and a line for each file that was left out."""

    x: Tensor  # uint8 [N, 3, size, size], or one channel of grey
    files: tuple[Path, ...]
    unreadable: tuple[str, ...] = ()


def find_images(paths: Sequence[Path]) -> list[Path]:
    """List these files, and the images in these folders, sorted."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            names = _images_in(Folder(path), ".")
            if not names:
                raise UserError(f"{shown(path)} holds no images ({' '.join(EXTENSIONS)})")
            files.extend(path / name for name in names)
        else:
            files.append(path)
    return files


def class_folders(source: Folder) -> list[str]:
    """List the names of the class folders, sorted; some may be empty."""
    with read_errors(source.path):
        classes = sorted(
            entry.name
            for entry in source.path.iterdir()
            if entry.is_dir() and not entry.name.startswith(".")
        )
    if not classes:
        raise UserError(
            f"{shown(source.path)} holds no class folders: "
            "put the images of each class into a folder named after it"
        )
    for name in classes:
        if not name.isprintable():
            raise UserError(
                f"the class folder {shown(name)} in {shown(source.path)} has a name that cannot "
                "be printed: rename it"
            )
    return classes


def images_by_class(
    source: Folder,
    classes: Iterable[str] | None = None,
    purpose: str = "one to train and one to test",
) -> dict[str, list[str]]:
    """List the image files in class folders, by default in all of them, and in nested folders.
    Each class needs two images, for this purpose."""
    files: dict[str, list[str]] = {}
    for name in class_folders(source) if classes is None else classes:
        files[name] = _images_in(source, name)
        if len(files[name]) < 2:
            raise UserError(
                f"the class {name!r} in {shown(source.path)} has "
                f"{'one image' if files[name] else 'no images'}: it needs at least two "
                f"({' '.join(EXTENSIONS)}), {purpose}"
            )
    return files


def read_files(
    files: Sequence[Path], size: int | Square, *, skip: bool = False, report: OnProgress = silent
) -> ImageFiles:
    """Read image files as squares. With `skip`, those that cannot be read are left out."""
    parts = [ImageFiles(torch.zeros((0, *Square.of(size).shape), dtype=torch.uint8), ())]
    parts.extend(read_blocks(files, size, skip=skip, report=report))
    return ImageFiles(
        torch.cat([part.x for part in parts]),
        tuple(chain.from_iterable(part.files for part in parts)),
        tuple(chain.from_iterable(part.unreadable for part in parts)),
    )


def read_blocks(
    files: Sequence[Path], size: int | Square, *, skip: bool = False, report: OnProgress = silent
) -> Iterator[ImageFiles]:
    """The same a block at a time, for any number of files."""
    failures: dict[Path, str] = {}

    def decode(file: Path) -> Pixels:
        pixels = _square_or_black(file, size, failures)
        if file in failures and not skip:
            advice = "move it away" if os.path.lexists(file) else "check the path"
            raise UserError(
                f"{failures[file]}; {advice}, or leave such files out", remedy="skip_unreadable"
            )
        return pixels

    done = 0
    for block in in_blocks(files, decode):
        own = files[done : done + len(block)]
        done += len(block)
        report("decoding images", done, len(files))
        readable = np.array([file not in failures for file in own], dtype=bool)
        yield ImageFiles(
            torch.from_numpy(block if readable.all() else block[readable]),
            tuple(file for file in own if file not in failures),
            tuple(failures[file] for file in own if file in failures),
        )


def class_files(folder: Path) -> dict[str, list[Path]]:
    """List the image files of each class folder."""
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise UserError(
            f"{shown(folder)} {problem}: give one with a folder of images for each class"
        )
    listed = images_by_class(Folder(folder)).items()
    return {name: [folder / file for file in files] for name, files in listed}


def other_files(folder: Path) -> tuple[str, ...]:
    """Return a line for each kind of file in a folder of class folders that is not read; hidden
    files are ignored."""
    kinds: Counter[str] = Counter()
    for name in Folder(folder).names("."):
        if not name.lower().endswith(EXTENSIONS):
            kinds[Path(name).suffix.lower() or "without an extension"] += 1
        elif name.startswith("./"):
            kinds["outside the class folders"] += 1
    return tuple(
        f"{count} file{'s' * (count != 1)} {shown(kind)} in {shown(folder)} cannot be used"
        for kind, count in kinds.most_common()
    )


def read_classes(
    folder: Path, size: int | Square, *, skip: bool = False, report: OnProgress = silent
) -> tuple[Mapping[str, Tensor], tuple[str, ...]]:
    """Read the images of each class folder, nested folders included. Also return a line for each
    image that was left out, and for each kind of other files."""
    by_class = class_files(folder)
    images = read_files(
        list(chain.from_iterable(by_class.values())), size, skip=skip, report=report
    )
    readable = set(images.files)
    counts = [sum(file in readable for file in files) for files in by_class.values()]
    left_out = (*images.unreadable, *other_files(folder))
    return dict(zip(by_class, torch.split(images.x, counts), strict=True)), left_out


def readable(
    source: Folder, names: Sequence[str], size: int | Square, leave_out: Callable[[str], None]
) -> list[str]:
    """List the images of a folder that can be read, and call `leave_out` with a line for each of
    the others."""
    failures: dict[Path, str] = {}
    files = [source.path / name for name in names]
    for _ in in_blocks(files, lambda file: _square_or_black(file, size, failures)):
        pass  # they are decoded again when needed, so folders may be larger than memory
    for file in filter(failures.get, files):
        leave_out(failures[file])
    return [name for name, file in zip(names, files, strict=True) if file not in failures]


def decode(source: Folder, size: int | Square, name: str, *, remedy: str | None = None) -> Pixels:
    """Read an image of a folder as a square, [3, size, size]. `remedy` is the option that an error
    suggests."""
    try:
        return _read_square(source.path / name, size)
    except Unreadable as error:
        raise UserError(f"{error}; repair it or move it away", remedy=remedy) from error


def _images_in(source: Folder, under: str) -> list[str]:
    return [name for name in source.names(under) if name.lower().endswith(EXTENSIONS)]


def _square_or_black(file: Path, size: int | Square, failures: dict[Path, str]) -> Pixels:
    """Read an image as a square; if that fails, return a black one and note why in `failures`."""
    try:
        return _read_square(file, size)
    except Unreadable as error:
        failures[file] = str(error)
        return np.zeros(Square.of(size).shape, np.uint8)


def _read_square(file: Path, size: int | Square) -> Pixels:
    """Read an image as a square, or raise an Unreadable that names its file."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
            raise Unreadable("it is not a regular file")
        if status.st_size > FILE_LIMIT:
            raise Unreadable(
                f"it has {status.st_size:,} bytes, and at most {FILE_LIMIT:,} are read"
            )
        return square_pixels(file.read_bytes(), size)
    except (OSError, Unreadable) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if isinstance(error, FileNotFoundError):
            reason = "there is no such file"
        raise Unreadable(f"cannot read the image {shown(file)}: {shown(reason)}") from error
