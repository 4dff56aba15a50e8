"""A model of what a learner knows, so that what was trained elsewhere can be used, examined and
taught on like any other model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from bntricks.model.create import build
from bntricks.model.metadata import Metadata
from bntricks.model.model import Model
from bntricks.networks.head import last_linear
from bntricks.recipes.lesson import Lesson
from bntricks.training.learner import Learner


def from_learner(learner: Learner, metadata: Metadata, labels: Sequence[int]) -> Model:
    """A copy of this learner that the metadata describes, on the CPU. `labels` are the learner's
    own for the classes described, in their order; the outputs of others are left out."""
    order = torch.tensor(labels)
    net = copy.deepcopy(learner.net).cpu()
    _select_outputs(net, order)
    own = build(metadata, net, len(labels), "cpu")
    old = sum(map(len, metadata.groups[:-1]))
    lesson = Lesson(len(metadata.taught), tuple(range(old, len(labels))), tuple(range(old)))
    state, theirs = own.state_dict(), learner.state_dict()
    state |= {"generators": theirs["generators"], "lesson": asdict(lesson)}
    if own.method.teacher == "previous":
        state["teacher"] = state["net"]
    if theirs["memory"] is not None:
        state["memory"] = _relabelled(theirs["memory"], order)
    if learner.state.fitted and own.method.classify.fits == "task end":
        state["fitted"] = learner.state.fitted
    own.load_state_dict(state)
    own.net.eval()
    return Model(own, metadata)


def _select_outputs(net: nn.Module, order: Tensor) -> None:
    head = last_linear(net)
    head.weight = nn.Parameter(head.weight.detach()[order])
    if head.bias is not None:
        head.bias = nn.Parameter(head.bias.detach()[order])
    head.out_features = len(order)


def _relabelled(memory: dict[str, Any], order: Tensor) -> dict[str, Any]:
    """A copy of what is stored, with a label for each place in the order."""
    stored = {k: v.cpu().clone() if isinstance(v, Tensor) else v for k, v in memory.items()}
    places = torch.full((int(order.max()) + 1,), -1).index_copy(0, order, torch.arange(len(order)))
    filled = stored["filled"]
    stored["y"][:filled] = places[stored["y"][:filled]]
    if stored["logits"] is not None:
        stored["logits"] = stored["logits"][:, order]
    return stored
