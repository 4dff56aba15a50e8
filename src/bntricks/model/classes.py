"""Changes of classes that a model has learned: renaming and removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bntricks.errors import UserError
from bntricks.model.metadata import LearnedTask
from bntricks.model.samples import check_name
from bntricks.networks.head import keep_outputs
from bntricks.streams import Images
from bntricks.training.state import previous

if TYPE_CHECKING:
    from bntricks.memory import Memory
    from bntricks.model.model import Model


def rename(model: Model, names: Mapping[str, str]) -> None:
    """Rename classes. The model's answers stay the same."""
    _check_known(model, names)
    for new in names.values():
        check_name(new)
    after = [names.get(name, name) for name in model.classes]
    twice = next((name for name in after if after.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"two classes would be called {twice!r}: give each a name of its own")
    note = ", ".join(f"{old} is now {new}" for old, new in names.items())
    _rewrite(model, {name: names.get(name, name) for name in model.classes})
    model.note("renamed", classes=tuple(names), note=note)


def remove(model: Model, names: Sequence[str]) -> None:
    """Remove classes, with their outputs and their images in the memory and the test images. The
    other outputs stay to the bit, so that no other class is recognised worse than before."""
    _check_known(model, names)
    kept = [output for output, name in enumerate(model.classes) if name not in names]
    if not kept:
        raise UserError("no class would be left: keep at least one")
    outputs = torch.full((len(model.classes),), -1)
    outputs[kept] = torch.arange(len(kept))

    learner, state = model.learner, model.learner.state
    keep_outputs(model.net, kept)
    learner.grow(len(kept))  # which makes an optimiser of the parameters there are now
    if learner.memory is not None:
        _keep_samples(learner.memory, outputs, kept)
    if model.frozen is not None:
        from bntricks.model.pretrained import highest_scores

        model.frozen = model.frozen.without(outputs)
        highest = highest_scores(model, model.frozen.tests)
        model.frozen = replace(model.frozen, highest=highest)
    if model.held_out is not None:
        y = outputs[model.held_out.y]
        model.held_out = Images(model.held_out.x[y >= 0], y[y >= 0])
    if "classes" in state.fitted:
        own = outputs.to(state.fitted["classes"].device)[state.fitted["classes"]]
        means = state.fitted["means"][own >= 0]
        state.fitted = {"classes": own[own >= 0], "means": means}
    new, old = (
        tuple(int(outputs[k]) for k in part if outputs[k] >= 0)
        for part in (state.lesson.new, state.lesson.old)
    )
    state.lesson = replace(state.lesson, new=new, old=old)
    if state.teacher is not None:
        state.teacher = previous(model.net)
    _rewrite(model, {name: name for name in model.classes if name not in names})
    model.note("removed", classes=tuple(names))


def _check_known(model: Model, names: Sequence[str] | Mapping[str, str]) -> None:
    unknown = next((name for name in names if name not in model.classes), None)
    if unknown is not None:
        raise UserError(
            f"{unknown!r} is not a class the model knows: it knows "
            f"{', '.join(map(repr, model.classes))}"
        )


def _keep_samples(memory: Memory, outputs: Tensor, kept: list[int]) -> None:
    """Select the samples of the remaining classes, with their new labels."""
    y = outputs[memory.y[: memory.filled]]
    memory.keep(np.flatnonzero(y.numpy() >= 0))
    memory.y[: memory.filled] = y[y >= 0]
    if memory.logits is not None:
        columns = [k for k in kept if k < memory.logits.shape[1]]
        memory.logits = memory.logits[:, columns].contiguous()


def _rewrite(model: Model, names: Mapping[str, str]) -> None:
    """Rewrite the metadata with these names; classes without one are left out."""

    def renamed(task: LearnedTask) -> LearnedTask:
        classes, more = (
            tuple(names[name] for name in part if name in names)
            for part in (task.classes, task.more)
        )
        return task.model_copy(update={"classes": classes, "more": more})

    taught = tuple(map(renamed, model.metadata.taught))
    model.metadata = model.metadata.model_copy(update={"taught": taught})
