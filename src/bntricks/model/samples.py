"""What a model learns from: samples by class name, some of them held out for testing.

They may be given as a folder with a folder for each class, as a mapping from class names to
samples, or as samples with a list of their class names. Samples are arrays or tensors: uint8
images, or floats of any shape that are network inputs already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bntricks.batch import check_finite
from bntricks.errors import UserError
from bntricks.model.history import checksum
from bntricks.model.metadata import Metadata
from bntricks.streams import Images
from bntricks.streams.apply import held_out_positions
from bntricks.streams.files.image import Square
from bntricks.streams.files.image_files import read_classes, read_files
from bntricks.streams.files.progress import OnProgress, silent
from bntricks.streams.sources.arrays import pixels

MOST_HELD_OUT = 100
"""Images of a class that are held out, at most: they go into the model file."""


@dataclass(frozen=True, slots=True)
class ClassSamples:
    """Samples of new classes, with labels from 0 on in the order of their names."""

    names: tuple[str, ...]
    train: Images
    test: Images
    unreadable: tuple[str, ...] = ()
    """A line for each file that was left out, and for each kind of file that is not read."""

    @property
    def digest(self) -> str:
        """A hash of names and images, and of which are held out."""
        parts = {"train": self.train, "test": self.test}
        images = {f"{name}.x": part.x for name, part in parts.items()}
        labels = {f"{name}.y": part.y for name, part in parts.items()}
        return checksum({"classes": self.names}, images | labels)


def choosing(y: Tensor) -> Tensor:
    """Select the held-out images that choose: every third of each class, in the order in which they
    came. The others confirm what was chosen, and tell the accuracy. So an image has one of both
    tasks for the life of the model, and a class with one or two images has none to choose by."""
    chosen = torch.zeros(len(y), dtype=torch.bool)
    for label in set(y.tolist()):
        chosen[(y == label).nonzero().flatten()[2::3]] = True
    return chosen


def gather(
    given: Any,
    *,
    size: int | Square,
    held_out: float = 0.0,
    skip: bool = False,
    report: OnProgress = silent,
) -> ClassSamples:
    """Convert all forms of samples to one. A share of each class is held out, evenly spread."""
    check_share(held_out)
    unreadable: tuple[str, ...] = ()
    if isinstance(given, str | Path):
        by_class, unreadable = read_classes(Path(given), size, skip=skip, report=report)
    elif isinstance(given, Mapping):
        by_class = {name: to_tensor(value, size) for name, value in given.items()}
    else:
        by_class = _by_name(given, size)
    _check(by_class, 2 if held_out else 1)
    parts = [_split(x, held_out) for x in by_class.values()]
    train, test = (_labelled([part[k] for part in parts]) for k in (0, 1))
    return ClassSamples(tuple(by_class), train, test, unreadable)


def check_share(held_out: float) -> None:
    """Refuse a share that leaves no images of a class to be trained on."""
    if not 0 <= held_out < 1:
        raise UserError(
            "the share of each class kept for testing is from 0 to below 1, such as 0.2",
            option="held_out",
            value=held_out,
        )


def to_tensor(given: Any, size: int | Square) -> Tensor:
    """Convert arrays, tensors, or paths of image files to one tensor with a row for each sample."""
    if isinstance(given, str | Path):
        given = [given]
    if isinstance(given, Sequence) and given and all(isinstance(g, str | Path) for g in given):
        return read_files([Path(path) for path in given], size).x
    try:
        x = given.detach().cpu() if isinstance(given, Tensor) else torch.as_tensor(np.array(given))
    except (TypeError, ValueError):
        raise UserError(
            f"samples are given as {type(given).__name__}, which is not an array: give an array, a "
            "tensor, or paths of image files"
        ) from None
    if x.dtype == torch.uint8 and x.dim() > 2:
        return torch.from_numpy(np.ascontiguousarray(pixels("an array of images", x)))
    if not x.is_floating_point() or x.dim() < 2:
        raise UserError(
            f"samples are {str(x.dtype).removeprefix('torch.')} of shape {list(x.shape)}: give "
            "uint8 images, [N, C, H, W] or [N, H, W, C], or floats with a row for each sample"
        )
    check_finite(x.float(), "an array of samples")
    return x.float()


def _by_name(given: Any, size: int | Square) -> dict[str, Tensor]:
    try:
        values, labels = given
    except (TypeError, ValueError):
        raise UserError(
            f"samples are given as {type(given).__name__}: give a folder of class folders, a "
            "mapping from class names to samples, or a pair of samples and class names"
        ) from None
    x, names = to_tensor(values, size), [str(name) for name in labels]
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
    """Check that a class name is text that can be written to a file."""
    if not isinstance(name, str) or not name or any("\ud800" <= c <= "\udfff" for c in name):
        raise UserError(f"{name!r} is not a class name: give text that is not empty, in Unicode")


def testing(count: int, share: float) -> Tensor:
    """Choose which images of a class are held out."""
    held = held_out_positions(count, min(share, MOST_HELD_OUT / count)) if share else frozenset()
    return torch.tensor([k in held for k in range(count)])


def _split(x: Tensor, share: float) -> tuple[Tensor, Tensor]:
    test = testing(len(x), share)
    return x[~test], x[test]


def _labelled(parts: Sequence[Tensor]) -> Images:
    counts = torch.tensor([len(part) for part in parts])
    return Images(torch.cat(list(parts)), torch.arange(len(parts)).repeat_interleave(counts))


def check_samples(metadata: Metadata, x: Tensor) -> None:
    """Check that samples are of the kind that the model was made for."""
    if tuple(x.shape[1:]) != metadata.shape:
        raise UserError(f"a sample is {list(x.shape[1:])}, the model takes {list(metadata.shape)}")
    if (x.dtype == torch.uint8) != (metadata.view is not None):
        kind = "uint8 images" if metadata.view else "floats, which are inputs as they are"
        raise UserError(
            f"samples are {str(x.dtype).removeprefix('torch.')}, the model takes {kind}: convert "
            "them, or adopt the network with view=View(mean, std) to give it images"
        )
