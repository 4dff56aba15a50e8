"""Whom the command line brings to the doctor: a model that bnt saved, or a stranger's network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from bntricks.doctor.foreign import check_accepts, load_weights, make_network, save_weights
from bntricks.doctor.groups import Groups, batches_of
from bntricks.doctor.pictures import normalised, picture_groups
from bntricks.doctor.reading import placed
from bntricks.errors import UserError
from bntricks.streams.sources.folder import image_folder, images_by_class

if TYPE_CHECKING:
    from bntricks.training.learner import Learner

Names = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Patient:
    """A network, the images to judge it on, and how to write it."""

    net: nn.Module
    groups: Groups
    save: Callable[[Path], None]


def foreign(
    net: str,
    weights: Path,
    data: Path,
    groups: Names,
    classes: Sequence[str] | None,
    *,
    size: int,
    mean: Sequence[float],
    std: Sequence[float],
    at_most: int | None,
) -> Patient:
    """A network of the user's own."""
    view = normalised(mean, std)
    folders = list(images_by_class(image_folder(data)))
    if not groups:
        raise UserError(
            "--groups are missing: list the classes in the order they were learned, the newest "
            f"last, such as --groups '{folders[0]}' '{','.join(folders[1:])}'"
        )
    found = picture_groups(data, groups, classes or folders, view, size=size, at_most=at_most)
    made = make_network(net)
    load_weights(made, weights)
    return _checked(Patient(made, found, partial(save_weights, made)))


def ours(learner: Learner, data: Path, groups: Names, *, at_most: int | None) -> Patient:
    """A model that bnt saved, which knows its classes, the tasks they came in, and how it sees."""
    about = learner.about
    if about is None or len(about.shape) != 3:
        raise UserError("this model does not take images: examine it in Python, with diagnose")
    if learner.method.classify != "linear":
        raise UserError(
            f"this model ({about.method}) classifies by the {learner.method.classify}, which moves "
            "with φ: the doctor judges linear classifiers"
        )

    def view(x: Tensor) -> Tensor:
        return learner.view(x, None)

    def save(path: Path) -> None:
        learner.save(path, memory=about.with_memory)

    found = picture_groups(
        data, groups or learner.groups, learner.classes, view, size=about.shape[-1], at_most=at_most
    )
    return _checked(Patient(learner.net, found, save))


def _checked(patient: Patient) -> Patient:
    name, batches = next(iter(patient.groups.items()))
    x, _ = next(batches_of(name, batches))
    check_accepts(patient.net, placed(patient.net)(x))
    return patient
