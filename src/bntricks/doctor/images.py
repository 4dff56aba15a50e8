"""A folder of class folders as groups of batches. Images are decoded on every pass, a block at a
time, so that a folder of any size fits into memory."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from bntricks.doctor.accuracy import inputs_for
from bntricks.doctor.groups import Batches, BatchesByGroup, Labelled, checked_batches
from bntricks.errors import UserError, abbreviated, counted
from bntricks.networks.imported import summary
from bntricks.norm import mode
from bntricks.streams.files.archive import Folder
from bntricks.streams.files.image import Square, in_blocks
from bntricks.streams.files.image_files import decode, images_by_class, readable

ImageView = Callable[[Tensor], Tensor]
"""A function from uint8 images, [N, 3, H, W] or [N, 1, H, W], to a network's inputs."""


@dataclass(frozen=True, slots=True)
class Photos:
    """A folder of class folders, and which of its images are used."""

    source: Folder
    folders: Sequence[str]
    images_per_class: int | None = None
    """The number of images that are used of each class, from the first on."""
    leave_out: Callable[[str], None] | None = None
    """Called with each unreadable file, which is left out; without it, the file is refused."""


def image_groups(
    photos: Photos,
    groups: Sequence[Sequence[str]],
    classes: Sequence[str],
    view: ImageView,
    *,
    size: int | Square,
) -> BatchesByGroup:
    """Return the images of each group of class names; labels are positions in `classes`."""
    source, leave_out = photos.source, photos.leave_out
    listed = [name for group in groups for name in group]
    nested = [name for name in listed if "/" in name and _is_folder_within(source.path, name)]
    _check_names(listed, [*photos.folders, *nested], classes)
    if len(groups) < 2:
        raise UserError(
            "the doctor compares at least two groups: list the classes in the order they were "
            "learned, the newest last",
            option="groups",
        )
    files = images_by_class(source, listed, "one to estimate moments and one to measure accuracy")
    if leave_out is not None:
        files = {name: readable(source, files[name], size, leave_out) for name in listed}
        for name in listed:
            if len(files[name]) < 2:
                few = "one image" if files[name] else "no image"
                raise UserError(f"{few} of the class {name!r} can be read: it needs at least two")
    labels = {name: index for index, name in enumerate(classes)}
    batches_by_group: dict[str, Batches] = {}
    for group in groups:
        labelled = [
            (f, labels[name]) for name in group for f in files[name][: photos.images_per_class]
        ]
        batches_by_group[abbreviated(group, 3)] = partial(_batches, source, labelled, view, size)
    return batches_by_group


def normalisation(mean: Sequence[float], std: Sequence[float]) -> ImageView:
    """Make a view that normalises pixels in [0, 1], of three channels or of one."""
    if len(mean) != len(std) or len(mean) not in (1, 3):
        raise UserError(
            f"{counted(len(mean), 'mean')} and {counted(len(std), 'standard deviation')}: give "
            "three of each for colour, or one of each for grey images",
            option="mean",
        )
    for value in mean:
        if not 0 <= value <= 1:
            raise UserError("a mean of pixels is from 0 to 1", option="mean", value=f"{value:g}")
    for value in std:
        if not 0 < value < inf:
            raise UserError("a standard deviation is above 0", option="std", value=f"{value:g}")
    centre, spread = (torch.tensor(values).view(1, -1, 1, 1) for values in (mean, std))

    def view(x: Tensor) -> Tensor:
        return (x.float() / 255 - centre) / spread

    return view


@torch.no_grad()
def check_accepts(net: nn.Module, groups: BatchesByGroup, *, adjustable: bool = False) -> Any:
    """Pass some of these images through the network and return its output. Images that it cannot
    take are refused; they are `adjustable` if the user chooses their size and channels."""
    x, _ = next(checked_batches(*next(iter(groups.items()))))
    try:
        with mode(net, training=False):
            return net(inputs_for(net)(x))
    except Exception as error:
        hint, remedy = _adjustment(error) if adjustable else ("", None)
        raise UserError(
            f"the network cannot take images of {list(x.shape[1:])}: {summary(error)}{hint}",
            remedy=remedy,
        ) from error


def _adjustment(error: Exception) -> tuple[str, str]:
    """Advise how to change images that a network cannot take, and by which option."""
    if "channels" in str(error):  # torch's word for it
        return (
            "; one mean and one standard deviation make images grey, three of each colour",
            "mean",
        )
    return (
        "; give a different size, or one mean and one standard deviation for grey images",
        "image_size",
    )


def _batches(
    source: Folder, labelled_files: Sequence[tuple[str, int]], view: ImageView, size: int | Square
) -> Iterator[Labelled]:
    # Classes are mixed within every batch, in the same order on every pass.
    order = torch.randperm(len(labelled_files), generator=Generator().manual_seed(0)).tolist()
    files = [labelled_files[index][0] for index in order]
    labels = torch.tensor([labelled_files[index][1] for index in order])
    done = 0
    for block in in_blocks(files, partial(decode, source, size, remedy="skip_unreadable")):
        yield view(torch.from_numpy(block)), labels[done : done + len(block)]
        done += len(block)


def _is_folder_within(folder: Path, name: str) -> bool:
    """Whether this class name, which may be anybody's, names a folder in this one."""
    return (
        ".." not in Path(name).parts and not Path(name).is_absolute() and (folder / name).is_dir()
    )


def _check_names(listed: Sequence[str], folders: Collection[str], classes: Collection[str]) -> None:
    for known, problem, option in (
        (classes, "is not a class of the model; its classes are", "groups"),
        (folders, "has no folder in the data; there are", "data"),
    ):
        for name in listed:
            if name not in known:
                names = abbreviated([repr(each) for each in known], 10)
                raise UserError(f"{name!r} {problem} {names}", option=option)
    for name in listed:
        if listed.count(name) > 1:
            raise UserError(f"{name!r} is listed twice: a class is in one group", option="groups")
