"""A network of the user's own, built by a function of theirs and filled from a file of weights."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from bntricks.doctor.groups import BatchesByGroup
from bntricks.doctor.images import Photos, check_accepts, image_groups, normalisation
from bntricks.errors import UserError, counted
from bntricks.networks.head import scores_in
from bntricks.networks.imported import called
from bntricks.networks.weights import Checkpoint, load_weights
from bntricks.streams.files.image import Square
from bntricks.system.devices import place


def open_network(
    net: str,
    weights: Path | None,
    photos: Photos,
    groups: Sequence[Sequence[str]],
    classes: Sequence[str],
    *,
    image_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    device: str = "cpu",
) -> tuple[nn.Module, BatchesByGroup, Checkpoint | None]:
    """Build the network, and read the images to examine it with, and its weights. Without a file,
    those are what its function gives it."""
    view, folders = normalisation(mean, std), photos.folders
    square = Square(image_size, grey=len(mean) == 1)
    if not groups:
        raise UserError(
            "it is required for a network of your own: list the classes in the order they were "
            f"learned, the newest last, such as '{folders[0]}' '{','.join(folders[1:])}'",
            option="groups",
        )
    batches_by_group = image_groups(photos, groups, classes, view, size=square)
    network = called(net)
    checkpoint = None if weights is None else load_weights(network, weights)
    network = place(network, torch.device(device))
    scores = scores_in(check_accepts(network, batches_by_group, adjustable=True))
    if isinstance(scores, Tensor) and scores.ndim == 2 and scores.shape[1] != len(classes):
        namers = "the folders name" if list(classes) == list(folders) else "the list names"
        raise UserError(
            f"the network has {counted(scores.shape[1], 'output')} and {namers} "
            f"{len(classes)} class{'es' * (len(classes) != 1)}: name all outputs, in their order",
            remedy="classes",
        )
    return network, batches_by_group, checkpoint
