"""A run that starts from the weights of a model: a base phase was made once, for many runs to go on
from. The tasks whose classes the model knows are over; every method then does with them what it
does when a task ends, and fills its memory from their training images."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from bntricks.batch import Batch
from bntricks.errors import UserError, abbreviated
from bntricks.files import shown
from bntricks.model.file import UnusableError, check_weights, read_weights
from bntricks.networks.head import last_linear
from bntricks.recipes.lesson import Lesson, next_lesson
from bntricks.streams import Stream
from bntricks.system.devices import near
from bntricks.training import checkpoint
from bntricks.training.learner import Learner

STEP = 8
"""Every eighth image of the tasks that are over shows how high outputs are."""


@dataclass(frozen=True)
class Start:
    """The weights of a model, and the name of each of its outputs."""

    path: Path
    classes: tuple[str, ...]
    weights: Mapping[str, Tensor]

    @classmethod
    def read(cls, path: Path) -> "Start":
        """Read them from a model file; no code is taken from it."""
        return cls(path, *read_weights(path))

    @property
    def checksum(self) -> str:
        """The SHA-256 of the weights and of the names, which is part of a run's name."""
        named = [list(self.classes), checkpoint.digest(dict(sorted(self.weights.items())))]
        return hashlib.sha256(json.dumps(named).encode()).hexdigest()

    def tasks_over(self, stream: Stream) -> int:
        """Count the first tasks of the stream, whose classes these are."""
        known = set(self.classes)
        for count in range(1, len(stream)):
            labels = (label for task in stream[:count] for label in task.classes)
            if known == {stream.class_names[label] for label in labels}:
                return count
        raise UserError(
            f"{shown(self.path)} knows {abbreviated([*map(repr, self.classes)], 5)}, which are not "
            f"the classes of the first tasks of {stream.name}, with one left to learn: cut the "
            "tasks so that they are",
            option="from",
        )


def go_on_from(start: Start, learner: Learner, stream: Stream, *, epochs: int) -> int:
    """Give a new learner these weights, as if it had learned the tasks that are over in so many
    epochs each. Return their number."""
    over, state, policy = start.tasks_over(stream), learner.state, learner.method.memory
    if learner.method.joint:
        raise UserError("this method learns all tasks at once: leave this out", option="from")
    labels = torch.tensor([stream.class_names.index(name) for name in start.classes])
    for net in state.learning:
        _load(start, net, labels)
    lessons = [Lesson()]
    for task in stream[:over]:
        lessons.append(next_lesson(lessons[-1], task.classes, len(task.train), task.visitors))
    state.lesson = lessons[-1]
    _silence_others(learner, labels, torch.cat([task.train.x[::STEP] for task in stream[:over]]))
    if policy is not None and policy.fills == "step" and state.memory is not None:
        parts = [task.train for task in stream[:over]]
        x, y = (torch.cat([getattr(part, name) for part in parts]) for name in ("x", "y"))
        ids = torch.cat([torch.arange(len(part)) for part in parts])
        policy.adopt(state, Batch(near(x, learner.device), y, ids=ids))
        filled = state.memory.filled
        task_of = {label: t for t, task in enumerate(stream, start=1) for label in task.classes}
        stored = [min(over, task_of[label]) for label in state.memory.y[:filled].tolist()]
        state.memory.tasks[:filled] = torch.tensor(stored)
        state.memory.offered = epochs * len(y)
    for task, state.lesson in zip(stream[:over], lessons[1:], strict=True):
        state.trained_on = epochs * torch.bincount(task.train.y).double()
        learner.end(task.train.x, task.train.y)
    return over


@torch.no_grad()
def _silence_others(learner: Learner, labels: Tensor, x: Tensor) -> None:
    """Lower the outputs of classes to come until they win none of these images, as if they had been
    trained with the others."""
    logits = learner.state.outputs(x).cpu()
    others = torch.ones(logits.shape[1], dtype=torch.bool)
    others[labels] = False
    lead = (logits[:, others].amax(1) - logits[:, ~others].amax(1)).amax().item()
    for net in learner.state.learning:
        if (bias := last_linear(net).bias) is not None and lead > 0:
            bias[others.to(bias.device)] -= lead


@torch.no_grad()
def _load(start: Start, net: nn.Module, labels: Tensor) -> None:
    """Load the weights; the head's rows for other classes stay as they are."""
    own, head = net.state_dict(), last_linear(net)
    prefix = next(name for name, module in net.named_modules() if module is head)
    rows = [name for name in own if name.startswith(f"{prefix}.") and own[name].dim()]
    try:
        check_weights(own | {name: own[name].cpu()[labels] for name in rows}, start.weights)
    except UnusableError as error:
        raise UserError(
            f"{shown(start.path)} does not fit the network of this run: {error.message}; choose "
            "the one that it was trained with",
            option="from",
        ) from None
    for name, given in start.weights.items():
        value = own[name]
        value[labels.to(value.device) if name in rows else ...] = given.to(value.device)
