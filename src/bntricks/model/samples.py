"""What a learner is taught from: images by class name, some of them kept aside for testing.

They may be given as a folder with a folder for each class, as a mapping from class names to
samples, or as samples with a list of their class names. Samples are arrays or tensors: uint8
images, or floats of any shape that are network inputs already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bntricks.errors import UserError
from bntricks.streams import Images
from bntricks.streams.files.photos import read_classes, read_files
from bntricks.streams.files.progress import Report, silent
from bntricks.streams.sources.arrays import pixels
from bntricks.streams.sources.folder import held_out_positions

MOST_TESTS = 100
"""Images of a class that are kept for testing, at most: they go into the model file."""


@dataclass(frozen=True, slots=True)
class Material:
    """New classes, with labels from 0 on in the order of their names."""

    names: tuple[str, ...]
    train: Images
    test: Images
    unreadable: tuple[str, ...] = ()
    """A line for each file that was left out."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample."""
        return tuple(self.train.x.shape[1:])


def gather(
    given: Any,
    *,
    size: int,
    held_out: float = 0.0,
    skip: bool = False,
    report: Report = silent,
) -> Material:
    """Bring what is given into one form. Of each class, a share is held out, evenly spread."""
    if not 0 <= held_out < 1:
        raise UserError(
            f"held_out is {held_out}: it is the share of each class kept for testing, from 0 to "
            "below 1, such as 0.2"
        )
    unreadable: tuple[str, ...] = ()
    if isinstance(given, str | Path):
        by_class, unreadable = read_classes(Path(given), size, skip=skip, report=report)
    elif isinstance(given, Mapping):
        by_class = {name: samples(value, size) for name, value in given.items()}
    else:
        by_class = _by_name(given, size)
    _check(by_class, 2 if held_out else 1)
    parts = [_split(x, held_out) for x in by_class.values()]
    train, test = (_labelled([part[k] for part in parts]) for k in (0, 1))
    return Material(tuple(by_class), train, test, unreadable)


def samples(given: Any, size: int) -> Tensor:
    """Arrays, tensors, or paths of image files, as one tensor with a row for each sample."""
    if isinstance(given, str | Path):
        given = [given]
    if isinstance(given, Sequence) and given and all(isinstance(g, str | Path) for g in given):
        return read_files([Path(path) for path in given], size).x
    try:
        x = given.detach().cpu() if isinstance(given, Tensor) else torch.as_tensor(np.array(given))
    except (TypeError, ValueError):
        raise UserError(
            f"samples are given as {type(given).__name__}, which is no array: give an array or a "
            "tensor, or paths of image files"
        ) from None
    if x.dtype == torch.uint8 and x.dim() > 2:
        return torch.from_numpy(np.ascontiguousarray(pixels("an array of images", x)))
    if not x.is_floating_point() or x.dim() < 2:
        raise UserError(
            f"samples are {str(x.dtype).removeprefix('torch.')} of shape {list(x.shape)}: give "
            "uint8 images, [N, C, H, W] or [N, H, W, C], or floats with a row for each sample"
        )
    return x.float()


def _by_name(given: Any, size: int) -> dict[str, Tensor]:
    try:
        values, labels = given
    except (TypeError, ValueError):
        raise UserError(
            f"material is given as {type(given).__name__}: give a folder of class folders, a "
            "mapping from class names to samples, or a pair of samples and class names"
        ) from None
    x, names = samples(values, size), [str(name) for name in labels]
    if len(x) != len(names):
        raise UserError(f"there are {len(x)} samples and {len(names)} names: give one for each")
    return {
        name: x[[k for k, own in enumerate(names) if own == name]] for name in dict.fromkeys(names)
    }


def _check(by_class: Mapping[str, Tensor], fewest: int) -> None:
    if not by_class:
        raise UserError("there are no classes to learn: give samples of at least one")
    for name, x in by_class.items():
        check_name(name)
        if len(x) < fewest:
            raise UserError(
                f"the class {name!r} has {len(x)} samples: it needs at least {fewest}"
                + (", one to train and one to test" if fewest > 1 else "")
            )
    kinds = {(x.dtype, tuple(x.shape[1:])) for x in by_class.values()}
    if len(kinds) > 1:
        raise UserError(f"samples differ in kind: {sorted(map(str, kinds))}; make them alike")


def check_name(name: object) -> None:
    """Any text will do that can be written down."""
    if not isinstance(name, str) or not name or any("\ud800" <= c <= "\udfff" for c in name):
        raise UserError(f"{name!r} is no class name: give text that is not empty, in Unicode")


def _split(x: Tensor, share: float) -> tuple[Tensor, Tensor]:
    aside = held_out_positions(len(x), min(share, MOST_TESTS / len(x))) if share else frozenset()
    testing = torch.tensor([k in aside for k in range(len(x))])
    return x[~testing], x[testing]


def _labelled(parts: Sequence[Tensor]) -> Images:
    counts = torch.tensor([len(part) for part in parts])
    return Images(torch.cat(list(parts)), torch.arange(len(parts)).repeat_interleave(counts))
