"""The only loop over epochs and batches, by which runs, models and estimators learn a task."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from torch import Generator, Tensor

from bntricks.batch import batch_count, shuffled
from bntricks.norm import Phi
from bntricks.system.devices import near, take
from bntricks.training.learner import Learner
from bntricks.training.progress import Progress
from bntricks.training.state import State


@dataclass
class Position:
    """The place between two steps: the numbers of lessons that are over, of epochs of the current
    one, and of batches of the current epoch."""

    lesson: int = 0
    epoch: int = 0
    batch: int = 0
    order: Tensor | None = None
    """The state of the order generator when this epoch began; None before the task."""
    seconds: float = 0.0
    """Time spent on this lesson."""
    phi: Phi = field(default_factory=dict)
    """φ when the task began."""


Save = Callable[[Position, bool], None]
"""A function that saves a checkpoint at a position if the flag is set, and otherwise when due."""


def learn_epochs(
    learner: Learner,
    x: Tensor,
    y: Tensor,
    *,
    epochs: int,
    progress: Progress,
    task: int = 1,
    tasks: int = 1,
    position: Position | None = None,
    even_classes: bool = False,
    every_step: bool = False,
    epoch_over: Callable[[int], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    save: Save = lambda position, now: None,
) -> None:
    """Observe the samples of task number `task` of `tasks`, for these epochs. With `even_classes`,
    an epoch has as many samples of each class, whatever their number.

    φ is next read when the task is over, or by `epoch_over`, which is called with the number of
    each finished epoch. Tracking passes that make no difference then are left out, unless
    `every_step` is tracked. When `stop` returns true after a step, the loop ends, once `save` has
    been called; a later call goes on from the `position` to the same bits. A loss that is not
    finite raises, at the latest when the loop is over.
    """
    position = position or Position()
    start = time.perf_counter() - position.seconds
    images, state = near(x, learner.device), learner.state
    batch, even = state.options.batch, state.options.even_batches
    per_epoch = batch_count(len(y), batch, even=even)
    labels = y if even_classes else None
    with _lent(state) as rate:
        for ids in batches(
            position, len(y), batch, epochs, learner.generators.order, even=even, y=labels
        ):
            until_over = (epochs - position.epoch) * per_epoch - position.batch + 1
            until_read = until_over if epoch_over is None else per_epoch - position.batch + 1
            state.optimiser.lr = rate * state.schedule(1 - until_over / (epochs * per_epoch))
            loss = learner.observe(
                take(images, ids, learner.device),
                y[ids],
                ids=ids,
                horizon=None if every_step else until_read,
            )
            epoch = position.epoch + 1
            progress.step(loss, task=task, of=tasks, epoch=epoch, epochs=epochs)
            if position.batch == per_epoch:
                progress.emit("epoch")
                if epoch_over is not None:
                    epoch_over(position.epoch + 1)
            position.seconds = time.perf_counter() - start
            stopping = stop()
            save(position, stopping)
            if stopping:
                break
    progress.check()


@contextmanager
def _lent(state: State) -> Iterator[float]:
    """Yield the learning rate; restore it and the caller's generators afterwards."""
    rate = state.optimiser.lr
    try:
        with state.randomness.borrowed(state.device):
            yield rate
    finally:
        state.optimiser.lr = rate


def batches(
    position: Position,
    count: int,
    size: int,
    epochs: int,
    order: Generator,
    *,
    even: bool = False,
    y: Tensor | None = None,
) -> Iterator[Tensor]:
    """Yield the batches of a task from this position on, over all epochs, and advance it."""
    while position.epoch < epochs:
        if position.batch == 0:
            position.order = order.get_state()
        else:  # the same order again
            assert position.order is not None
            order.set_state(position.order)
        for ids in islice(shuffled(count, size, order, even=even, y=y), position.batch, None):
            position.batch += 1
            yield ids
        position.epoch, position.batch = position.epoch + 1, 0
