"""Teaching a learner new classes: its head grows, a task is learned, and what that did to the
classes it knew is measured on images it never trained on.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from math import inf
from typing import Any

import torch

from bntricks.batch import batch_count
from bntricks.cli import console as terminal
from bntricks.errors import UserError
from bntricks.model.create import check_samples, today
from bntricks.model.metadata import About, Taught
from bntricks.model.samples import Material, gather
from bntricks.networks.head import grow
from bntricks.networks.resnet import classifier
from bntricks.runs.position import Place, batches
from bntricks.streams import Images, Report
from bntricks.training.learner import Learner, descent
from bntricks.training.progress import Sink, Watch

HELD_OUT = 0.2
EPOCHS, STEPS = 30, 600
"""By default, so many passes over the new images, or as many as make so many steps."""


@dataclass(frozen=True, slots=True)
class Score:
    """Accuracy in percent on the test images of some classes, before and after the task."""

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
    learner: Learner,
    given: Any,
    *,
    epochs: int | None = None,
    held_out: float = HELD_OUT,
    lr: float | None = None,
    skip_unreadable: bool = False,
    sink: Sink | None = None,
) -> Learned:
    """Learn the classes of a folder of class folders, a mapping from class names to samples, or a
    pair of samples and class names.

    Of each class a share is held out, 100 samples at most, and kept for later tasks to be measured
    on. `sink` hears how it goes; without one, a bar shows it. If this is interrupted, the learner
    is half-taught: load it again.
    """
    about = ready(learner)
    with nullcontext(sink) if sink is not None else terminal.progress() as told:
        material = gather(
            given,
            size=about.shape[-1],
            held_out=held_out,
            skip=skip_unreadable,
            report=reported(told),
        )
        return teach(learner, material, epochs=epochs, lr=lr, sink=told)


def teach(
    learner: Learner, material: Material, *, epochs: int | None, lr: float | None, sink: Sink
) -> Learned:
    """Learn this material as the next task."""
    about = ready(learner)
    if epochs is None:
        epochs = max(EPOCHS, -(-STEPS // batch_count(len(material.train), about.batch)))
    if epochs < 1:
        raise UserError(f"epochs is {epochs}: it must be at least 1")
    if lr is not None and not 0 < lr < inf:
        raise UserError(f"lr is {lr}: it must be above 0, such as {about.lr}")
    check_samples(learner, material.train.x)
    _check_classes(learner, about, material)
    first, count = len(about.classes), len(material.names)
    before = measure(learner, learner.tests)

    about = about.but(lr=about.lr if lr is None else lr)
    grow(learner.net, first + count, learner.generators.init)
    learner.state.optimiser = descent(learner.net, learner.method, about.lr)
    learner.state.epochs = epochs
    train = Images(material.train.x, material.train.y + first)
    if learner.memory is not None and first:
        # A reservoir keeps samples in proportion to what it is offered. Old classes count as if
        # each had been offered as often as a new one will be, so that none is crowded out by a
        # larger folder or more epochs.
        offers = epochs * len(train) * first // count
        learner.memory.offered = max(learner.memory.filled, offers)
    learner.begin(range(first, first + count), train.x, train.y)
    _train(learner, train, epochs, sink)
    learner.end(train.x, train.y)
    learner.net.eval()

    task = Taught(classes=material.names, images=len(train), epochs=epochs, date=today())
    learner.about = about.but(taught=(*about.taught, task))
    learner.tests = _joined(learner.tests, Images(material.test.x, material.test.y + first))
    return _compared(learner, before, len(train), material.unreadable)


def ready(learner: Learner) -> About:
    """What the learner says about itself, if it can be taught."""
    if learner.about is None:
        raise UserError(
            "this learner has no class names: make it with Learner.adopt or Learner.load, or use "
            "begin, observe and end"
        )
    if not learner.about.with_memory and learner.method.memory is not None:
        raise UserError(
            "this model was saved without its memory: it predicts, but cannot learn on; teach the "
            "file that has its memory"
        )
    return learner.about


def reported(sink: Sink) -> Report:
    """How reading images tells a sink how far it is."""
    return lambda what, done, total: sink(
        {"event": "data", "what": what, "done": done, "total": total}
    )


def measure(learner: Learner, tests: Images | None) -> dict[int, float]:
    """Accuracy in percent on each class that has test images, among all classes."""
    if tests is None or not len(tests):
        return {}
    right = (learner.scores(tests.x).argmax(1) == tests.y).double()
    labels = sorted(set(tests.y.tolist()))
    return {label: 100 * right[tests.y == label].mean().item() for label in labels}


def _train(learner: Learner, train: Images, epochs: int, sink: Sink) -> None:
    material = Images(*learner.mixed(train.x, train.y))
    per_epoch = batch_count(len(material), learner.state.batch)
    watch = Watch(sink, total=epochs * per_epoch)
    learner.state.report = watch.report
    place, t = Place(), learner.state.lesson.t
    order, size = learner.generators.order, learner.state.batch
    for ids in batches(place, len(material), size, epochs, order):
        # φ is next read when the task is over.
        until_read = (epochs - place.epoch) * per_epoch - place.batch + 1
        loss = learner.observe(material.x[ids], material.y[ids], ids=ids, horizon=until_read)
        watch.step(loss, task=t, of=t, epoch=place.epoch + 1, epochs=epochs)
        if place.batch == per_epoch:
            watch.tell("epoch")
    watch.check()


def _joined(first: Images | None, second: Images) -> Images:
    if first is None:
        return second
    return Images(torch.cat([first.x, second.x]), torch.cat([first.y, second.y]))


def _check_classes(learner: Learner, about: About, material: Material) -> None:
    known = [name for name in material.names if name in about.classes]
    if known:
        raise UserError(
            f"the model knows {', '.join(map(repr, known[:5]))} already: a class is learned once; "
            "give new classes only"
        )
    if len(material.train) < 2:
        raise UserError("there is one image to learn from: BatchNorm needs at least two")
    policy, tasks = learner.method.memory, about.tasks
    if policy is not None and policy.one_each is not None:
        needed = {"class": len(about.classes) + len(material.names), "task": len(about.taught) + 1}
        if about.memory < needed[policy.one_each]:
            raise UserError(
                f"{about.method} keeps an image of each {policy.one_each}, and there are now "
                f"{needed[policy.one_each]}: its memory of {about.memory} is too small; begin "
                "again with a larger --memory"
            )
    if tasks is not None and len(about.taught) >= tasks:
        raise UserError(f"the model was made for {tasks} tasks, and has learned them all")
    if about.taught and classifier(learner.net).out_features != len(about.classes):
        raise UserError("the network's outputs are not its classes: load the model again")


def _compared(
    learner: Learner, before: dict[int, float], images: int, unreadable: tuple[str, ...]
) -> Learned:
    after = measure(learner, learner.tests)
    labels = [] if learner.tests is None else learner.tests.y.tolist()

    def score(classes: tuple[str, ...], start: int) -> Score:
        own = range(start, start + len(classes))
        return Score(
            classes,
            sum(label in own for label in labels),
            _mean(before, own),
            _mean(after, own),
        )

    starts, groups = 0, []
    for group in learner.groups:
        groups.append(score(group, starts))
        starts += len(group)
    return Learned(tuple(groups), score(learner.classes, 0), images, unreadable)


def _mean(by_class: dict[int, float], own: range) -> float | None:
    """None unless every class was measured."""
    found = [by_class[label] for label in own if label in by_class]
    return sum(found) / len(found) if len(found) == len(own) else None
