"""Learning from samples that come without saying where a task begins: their classes decide.

Samples of the current task's classes go on with it. All others begin a task, whose classes are
those that came, new ones and known ones alike; what is known and did not come is old, and left to
the memory.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from bntricks.batch import batch_count, shuffled
from bntricks.errors import UserError
from bntricks.memory import Memory
from bntricks.networks.head import grow
from bntricks.recipes.language import Lesson
from bntricks.training.learner import Learner, descent


def study(learner: Learner, x: Tensor, y: Tensor, *, outputs: int, lr: float, epochs: int) -> None:
    """Learn these raw samples, labelled by outputs, of which there are so many from now on. What
    cannot be learned is refused before anything changes."""
    state = learner.state
    before, classes = follow(state.lesson, set(y.tolist()))
    check_room(learner, before, classes)
    grow(learner.net, outputs, learner.generators.init)
    state.optimiser = descent(learner.net, learner.method, lr)
    state.lesson, state.epochs = before, epochs
    learner.begin(classes, x, y)
    state.lesson = replace(state.lesson, size=before.size + len(y))
    _train(learner, *learner.mixed(x, y), epochs)
    policy = learner.method.memory
    if learner.memory is not None and policy is not None and policy.fills == "task end":
        x, y = _given_back(learner.memory, classes, x, y)
    learner.end(x, y)


def follow(lesson: Lesson, came: Collection[int]) -> tuple[Lesson, tuple[int, ...]]:
    """The lesson to begin after, and the classes to begin, when samples of these classes come."""
    if set(came) <= set(lesson.new):
        return Lesson(lesson.t - 1, (), lesson.old, lesson.size), lesson.new
    left = tuple(label for label in lesson.seen if label not in came)
    return Lesson(lesson.t, (), left), tuple(sorted(came))


def check_room(learner: Learner, before: Lesson, classes: Collection[int]) -> None:
    """Some memories keep a sample of each class or task, or are shared out in advance."""
    policy, memory, tasks = learner.method.memory, learner.memory, learner.state.tasks
    if memory is None or policy is None or policy.one_each is None:
        return
    t = before.t + 1
    needed = {"class": len(before.old) + len(classes), "task": max(t, tasks or 0)}[policy.one_each]
    if memory.capacity < needed:
        raise UserError(
            f"this method keeps a sample of each {policy.one_each}, and there are {needed}: a "
            f"memory of {memory.capacity} is too small"
        )
    if policy.one_each == "task" and tasks is not None and t > tasks:
        raise UserError(f"the memory is shared out among {tasks} tasks, and this is one more")


def _train(learner: Learner, x: Tensor, y: Tensor, epochs: int) -> None:
    size, order = learner.state.batch, learner.generators.order
    left = epochs * batch_count(len(y), size)  # steps until φ is read
    total = torch.zeros((), device=learner.device)
    for _ in range(epochs):
        for ids in shuffled(len(y), size, order):
            total += learner.observe(x[ids], y[ids], ids=ids, horizon=left)
            left -= 1
    if not total.isfinite():
        lr = learner.state.optimiser.lr
        raise UserError(
            f"the loss was not finite at a learning rate of {lr:g}: lower it, and begin again"
        )


def _given_back(
    memory: Memory, classes: Collection[int], x: Tensor, y: Tensor
) -> tuple[Tensor, Tensor]:
    """What is stored of these classes goes back to their samples, to be chosen from anew: a policy
    that fills at a task's end takes a class or a task to come once."""
    if memory.x is None:
        return x, y
    own = torch.isin(memory.y[: memory.filled], torch.tensor(list(classes)))
    stored = memory.read(own.nonzero().flatten())
    memory.keep((~own).nonzero().flatten().numpy())
    return torch.cat([x, stored.x.cpu()]), torch.cat([y, stored.y])
