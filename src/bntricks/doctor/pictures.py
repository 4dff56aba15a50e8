"""A folder of class folders as groups of batches. Images are decoded anew on every run over them, a
block at a time, so a folder of any size fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Generator, Tensor

from bntricks.doctor.groups import Groups, Labelled
from bntricks.errors import UserError
from bntricks.streams.files.image import in_blocks
from bntricks.streams.files.source import Folder
from bntricks.streams.sources.folder import decode, image_folder, images_by_class

View = Callable[[Tensor], Tensor]
"""From uint8 images [N, 3, H, W] to a network's inputs."""

GREY = (0.299, 0.587, 0.114)


def picture_groups(
    folder: Path,
    groups: Sequence[Sequence[str]],
    classes: Sequence[str],
    view: View,
    *,
    size: int,
    at_most: int | None = None,
) -> Groups:
    """The images of each group of class names; a label is the class's position in `classes`."""
    source = image_folder(folder)
    files = images_by_class(source)
    listed = [name for group in groups for name in group]
    _check(listed, files, "which has no folder in the data; there are")
    _check(listed, classes, "which is no class of the model; its classes are")
    twice = sorted({name for name in listed if listed.count(name) > 1})
    if twice:
        raise UserError(f"--groups list {twice[0]!r} twice: a class is in one group")
    positions = {name: index for index, name in enumerate(classes)}
    found: dict[str, partial[Iterator[Labelled]]] = {}
    for group in groups:
        chosen = [(file, positions[name]) for name in group for file in files[name][:at_most]]
        found[_title(group)] = partial(_batches, source, chosen, view, size)
    return found


def normalised(mean: Sequence[float], std: Sequence[float]) -> View:
    """Pixels in [0, 1], less the mean, over the deviation: three of each for RGB, one for grey."""
    if len(mean) != len(std) or len(mean) not in (1, 3):
        raise UserError(
            f"--mean has {len(mean)} values and --std {len(std)}: give three of each for colour, "
            "or one of each for grey images"
        )
    if min(std) <= 0:
        raise UserError(f"--std {min(std):g}: a standard deviation is above 0")
    centre, spread = (torch.tensor(values).view(1, -1, 1, 1) for values in (mean, std))

    def view(x: Tensor) -> Tensor:
        pixels = x.float() / 255
        if len(mean) == 1:
            pixels = (pixels * torch.tensor(GREY).view(1, 3, 1, 1)).sum(1, keepdim=True)
        return (pixels - centre) / spread

    return view


def _batches(
    source: Folder, chosen: Sequence[tuple[str, int]], view: View, size: int
) -> Iterator[Labelled]:
    # Mixed classes in every batch, and the same order on every run.
    order = torch.randperm(len(chosen), generator=Generator().manual_seed(0)).tolist()
    labels = torch.tensor([chosen[index][1] for index in order])
    done = 0
    for block in in_blocks([chosen[index][0] for index in order], partial(decode, source, size)):
        yield view(torch.from_numpy(block)), labels[done : done + len(block)]
        done += len(block)


def _title(group: Sequence[str], shown: int = 3) -> str:
    rest = len(group) - shown
    return ", ".join(group[:shown]) + (f" and {rest} more" if rest > 0 else "")


def _check(listed: Sequence[str], known: Sequence[str] | dict[str, list[str]], why: str) -> None:
    for name in listed:
        if name not in known:
            some = ", ".join(map(repr, list(known)[:10])) + (", …" if len(known) > 10 else "")
            raise UserError(f"--groups name {name!r}, {why} {some}")
