"""Teaching a model new classes: its head grows, a task is learned, and what that did to the
classes it knew is measured on images it never trained on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from bntricks.batch import batch_count
from bntricks.errors import UserError
from bntricks.model.create import today
from bntricks.model.metadata import LearnedTask
from bntricks.model.model import Model
from bntricks.model.samples import ClassSamples, check_samples, gather
from bntricks.networks.head import last_linear
from bntricks.streams import Images, Report
from bntricks.training.loop import learn_epochs
from bntricks.training.optimisers import check_rate
from bntricks.training.progress import Progress, Sink

HELD_OUT = 0.2
EPOCHS, STEPS = 30, 600
"""By default, so many passes over the new images, or as many as make so many steps."""


@dataclass(frozen=True, slots=True)
class Score:
    """Accuracy in percent on the held-out images of some classes, before and after the task."""

    classes: tuple[str, ...]
    images: int
    before: float | None
    """None if the classes were new, or there was nothing to measure on."""
    after: float | None


@dataclass(frozen=True, slots=True)
class Learned:
    """What a task changed: a score for each task so far, this one last, and over all classes,
    where each class counts the same."""

    tasks: tuple[Score, ...]
    all: Score
    images: int
    """Trained on."""
    unreadable: tuple[str, ...]
    """A line for each file that was left out."""


def learn(
    model: Model,
    images: Any,
    *,
    epochs: int | None = None,
    held_out: float = HELD_OUT,
    lr: float | None = None,
    skip_unreadable: bool = False,
    sink: Sink = lambda event: None,
) -> Learned:
    """Learn the classes of a folder of class folders, a mapping from class names to samples, or a
    pair of samples and class names.

    Of each class a share is held out, 100 samples at most, and kept for later tasks to be measured
    on. `sink` is told how it goes. If this is interrupted, the model is half-taught: load it again.
    """
    check_can_learn(model)
    samples = gather(
        images,
        size=model.metadata.shape[-1],
        held_out=held_out,
        skip=skip_unreadable,
        report=reported(sink),
    )
    return teach(model, samples, epochs=epochs, lr=lr, sink=sink)


def teach(
    model: Model, samples: ClassSamples, *, epochs: int | None, lr: float | None, sink: Sink
) -> Learned:
    """Learn these samples as the next task."""
    check_can_learn(model)
    learner, metadata = model.learner, model.metadata
    if epochs is None:
        epochs = max(EPOCHS, -(-STEPS // batch_count(len(samples.train), metadata.batch)))
    if epochs < 1:
        raise UserError("it must be at least 1", option="epochs", value=epochs)
    if lr is not None:
        check_rate(lr)
    check_samples(metadata, samples.train.x)
    _check_classes(model, samples)
    first, count = len(metadata.classes), len(samples.names)
    before = measure(model)

    lr = metadata.lr if lr is None else lr
    learner.grow(first + count, lr=lr)
    learner.state.epochs = epochs
    train = Images(samples.train.x, samples.train.y + first)
    if learner.memory is not None and first:
        # A reservoir keeps samples in proportion to what it is offered. Old classes count as if
        # each had been offered as often as a new one will be, so that none is crowded out by a
        # larger folder or more epochs.
        offers = epochs * len(train) * first // count
        learner.memory.offered = max(learner.memory.filled, offers)
    learner.begin(range(first, first + count), train.x, train.y)
    x, y = learner.mix_in_memory(train.x, train.y)
    progress = Progress(sink, total=epochs * batch_count(len(y), metadata.batch))
    learner.state.report = progress.work
    t = learner.state.lesson.t
    learn_epochs(learner, x, y, epochs=epochs, progress=progress, task=t, tasks=t)
    learner.end(train.x, train.y)
    learner.net.eval()

    task = LearnedTask(classes=samples.names, images=len(train), epochs=epochs, date=today())
    changes = {"lr": lr, "taught": (*metadata.taught, task)}
    model.metadata = metadata.model_copy(update=changes)
    tests = Images(samples.test.x, samples.test.y + first)
    if (old := model.held_out) is not None:
        tests = Images(torch.cat([old.x, tests.x]), torch.cat([old.y, tests.y]))
    model.held_out = tests
    return _compared(model, before, len(train), samples.unreadable)


def check_can_learn(model: Model) -> None:
    if not model.metadata.with_memory and model.learner.method.memory is not None:
        raise UserError(
            "this model was saved without its memory: it predicts, but cannot learn on; teach the "
            "file that has its memory"
        )


def reported(sink: Sink) -> Report:
    """How reading images tells a sink how far it is."""
    return lambda what, done, total: sink(
        {"event": "data", "what": what, "done": done, "total": total}
    )


def measure(model: Model) -> dict[int, float]:
    """Accuracy in percent on each class that has held-out images, among all classes."""
    images = model.held_out
    if images is None or not len(images):
        return {}
    right = (model.learner.predict(images.x) == images.y).double()
    labels = sorted(set(images.y.tolist()))
    return {label: 100 * right[images.y == label].mean().item() for label in labels}


def _check_classes(model: Model, samples: ClassSamples) -> None:
    metadata, policy = model.metadata, model.learner.method.memory
    known = [name for name in samples.names if name in metadata.classes]
    if known:
        raise UserError(
            f"the model knows {', '.join(map(repr, known[:5]))} already: a class is learned once; "
            "give new classes only"
        )
    if len(samples.train) < 2:
        raise UserError("there is one image to learn from: BatchNorm needs at least two")
    if policy is not None and policy.one_each is not None:
        classes, tasks = len(metadata.classes) + len(samples.names), len(metadata.taught) + 1
        needed = {"class": classes, "task": tasks}[policy.one_each]
        if metadata.memory < needed:
            raise UserError(
                f"{metadata.method} keeps an image of each {policy.one_each}, and there are now "
                f"{needed}: its memory of {metadata.memory} is too small; begin again with a "
                "larger one",
                remedy="memory",
            )
    if metadata.tasks is not None and len(metadata.taught) >= metadata.tasks:
        raise UserError(f"the model was made for {metadata.tasks} tasks, and has learned them all")
    if metadata.taught and last_linear(model.net).out_features != len(metadata.classes):
        raise UserError("the network's outputs are not its classes: load the model again")


def _compared(
    model: Model, before: dict[int, float], images: int, unreadable: tuple[str, ...]
) -> Learned:
    after = measure(model)
    held_out = Counter([] if model.held_out is None else model.held_out.y.tolist())
    labels = {name: label for label, name in enumerate(model.classes)}

    def score(classes: tuple[str, ...]) -> Score:
        own = [labels[name] for name in classes]
        means = (
            sum(accuracy[label] for label in own) / len(own)
            if accuracy.keys() >= set(own)
            else None
            for accuracy in (before, after)
        )
        return Score(classes, sum(held_out[label] for label in own), *means)

    return Learned(tuple(map(score, model.groups)), score(model.classes), images, unreadable)
