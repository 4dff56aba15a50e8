"""The doctor for a `Model`: the groups are its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from bntricks.doctor.diagnosis import diagnose
from bntricks.doctor.groups import MIN_SAMPLES, BatchesByGroup, Labelled
from bntricks.doctor.images import Photos, check_accepts, image_groups
from bntricks.doctor.verdict import Verdict
from bntricks.errors import UserError

if TYPE_CHECKING:
    from bntricks.model.model import Model


def model_images(
    model: Model, photos: Photos, groups: Sequence[Sequence[str]] = ()
) -> BatchesByGroup:
    """Return images to examine a model with, by task or in these groups."""
    if len(model.metadata.shape) != 3:
        raise UserError("this model does not take images: examine it in Python, with diagnose")
    if _classifier_moves(model):
        raise UserError(
            f"this model classifies by the {model.learner.state.method.classify}, which moves with "
            "φ: the doctor judges linear classifiers"
        )
    if not groups and len(model.groups) < 2:
        raise UserError(
            "this model has learned one task only, so none of its classes are old: teach it "
            "another, or list groups of its classes yourself",
            remedy="groups",
        )
    batches_by_group = image_groups(
        photos,
        groups or model.groups,
        model.classes,
        lambda x: model.view(x, None),
        size=model.metadata.square,
    )
    check_accepts(model.net, batches_by_group)
    return batches_by_group


def checkup(model: Model) -> Verdict | None:
    """Judge what φ costs after a lesson, if there are held-out images of old and new classes.

    Balanced moments come from the memory if it holds every class, so that all held-out images can
    measure accuracy.
    """
    held_out, memory = model.held_out, model.learner.memory
    if held_out is None or len(model.groups) < 2 or _classifier_moves(model):
        return None
    measuring = _by_task(model, held_out.x, held_out.y)
    if any(len(y) < MIN_SAMPLES for [(_, y)] in measuring.values()):
        return None
    if memory is not None and memory.x is not None:
        stored = _by_task(model, memory.x[: len(memory)], memory.y[: len(memory)])
        if all(_covers(stored[task], measuring[task]) for task in measuring):
            return diagnose(model.net, stored, held_out=measuring, check_input=False).verdict
    return diagnose(model.net, measuring, check_input=False).verdict


def _classifier_moves(model: Model) -> bool:
    """Whether scores depend on φ in other ways than by the network's own outputs."""
    return model.learner.state.method.classify.fits != "never"


def _covers(stored: list[Labelled], measuring: list[Labelled]) -> bool:
    [(_, labels)], [(_, needed)] = stored, measuring
    return len(labels) >= MIN_SAMPLES and set(labels.tolist()) >= set(needed.tolist())


def _by_task(model: Model, x: Tensor, y: Tensor) -> dict[str, list[Labelled]]:
    device = next(model.net.parameters()).device
    tasks, end = {}, 0
    for number, classes in enumerate(model.groups, start=1):
        start, end = end, end + len(classes)
        rows = (y >= start) & (y < end)
        inputs = model.view(x[rows.to(x.device)].to(device), None)
        tasks[f"task {number}"] = [(inputs, y[rows])]
    return tasks
