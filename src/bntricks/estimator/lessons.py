"""Learning from samples without announced tasks: their classes decide.

Samples of the current task's classes continue it. All others begin a task, whose classes are those
of the samples, new and known ones alike; a known class without samples is old, and left to the
memory.
"""

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from bntricks.batch import batch_count
from bntricks.errors import UserError
from bntricks.memory import Memory
from bntricks.model.learn import undone_on_failure
from bntricks.recipes.lesson import Lesson
from bntricks.training.events import silent
from bntricks.training.learner import Learner
from bntricks.training.loop import learn_epochs
from bntricks.training.progress import Progress


def learn_samples(
    learner: Learner, x: Tensor, y: Tensor, *, outputs: int, lr: float, epochs: int
) -> None:
    """Learn raw samples. Labels are positions among the network's outputs, of which there are now
    `outputs`. If that fails or is interrupted, the learner stays as it was."""
    state = learner.state
    before, classes = follow(state.lesson, set(y.tolist()))
    check_room(learner, before, classes)
    with undone_on_failure(learner):
        learner.grow(outputs, lr=lr)
        state.lesson = before
        state.options = state.options.model_copy(update={"epochs": epochs})
        learner.begin(classes, x, y)
        state.lesson = replace(state.lesson, size=before.size + len(y))
        inputs, labels = learner.mix_in_memory(x, y)
        per_epoch = batch_count(len(labels), state.options.batch, even=state.options.even_batches)
        progress = Progress(silent, total=epochs * per_epoch)
        learn_epochs(learner, inputs, labels, epochs=epochs, progress=progress, task=state.lesson.t)
        policy = learner.method.memory
        if learner.memory is not None and policy is not None and policy.fills == "task end":
            x, y = _taken_back(learner.memory, classes, x, y)
        learner.end(x, y)


def follow(lesson: Lesson, present: Collection[int]) -> tuple[Lesson, tuple[int, ...]]:
    """Return the lesson to begin after, and the classes to begin, for samples of these classes."""
    if set(present) <= set(lesson.new):
        return Lesson(lesson.t - 1, (), lesson.old, lesson.size), lesson.new
    old = tuple(label for label in lesson.seen if label not in present)
    return Lesson(lesson.t, (), old), tuple(sorted(present))


def check_room(learner: Learner, before: Lesson, classes: Collection[int]) -> None:
    """Refuse more classes or tasks than a memory has room for."""
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
        raise UserError(f"the memory is shared out among {tasks} tasks, and this would be one more")


def _taken_back(
    memory: Memory, classes: Collection[int], x: Tensor, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Return stored samples of these classes to the new ones, to be chosen again: a policy that
    fills at a task's end expects each class and task once."""
    if memory.x is None:
        return x, y
    own = torch.isin(memory.y[: memory.filled], torch.tensor(list(classes)))
    stored = memory.read(own.nonzero().flatten())
    memory.keep((~own).nonzero().flatten().numpy())
    return torch.cat([x, stored.x.cpu()]), torch.cat([y, stored.y])
