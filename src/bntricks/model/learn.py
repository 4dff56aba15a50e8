"""Teaching a model new classes, or old ones from more images: its head grows, a task is learned,
and what that did to the classes it knew is measured on images it never trained on.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import torch

from bntricks.batch import batch_count
from bntricks.errors import RunError, UserError
from bntricks.model.checks import check_can_learn, check_classes, warn_of_a_small_memory
from bntricks.model.heads import temperature_of
from bntricks.model.history import today
from bntricks.model.metadata import LearnedTask
from bntricks.model.model import Model
from bntricks.model.phi import settle_phi
from bntricks.model.samples import ClassSamples, check_samples, check_share, choosing, gather
from bntricks.model.summary import Learned, answers, conclude
from bntricks.model.unfinished import Keep, decides_bits, restored, saving
from bntricks.networks.head import last_linear
from bntricks.recipes.lesson import next_lesson
from bntricks.streams import Images
from bntricks.system.stopping import postponed
from bntricks.training.checkpoint import Checkpoints
from bntricks.training.events import Sink, reported, silent
from bntricks.training.learner import Learner
from bntricks.training.loop import Position, Save, learn_epochs
from bntricks.training.optimisers import check_rate
from bntricks.training.progress import Progress

HELD_OUT = 0.2
EPOCHS, STEPS = 30, 600
"""By default, so many passes over the new images, or as many as make so many steps."""

WORTH_KEEPING = 10.0
"""Seconds of training that are kept in a file when they are over, in case the model cannot be
written."""


def learn(
    model: Model,
    images: Any,
    *,
    epochs: int | None = None,
    held_out: float = HELD_OUT,
    lr: float | None = None,
    more: bool = False,
    tune: bool = False,
    tune_from: str | None = None,
    skip_unreadable: bool = False,
    sink: Sink = silent,
) -> Learned:
    """Learn the classes of a folder of class folders, a mapping from class names to samples, or a
    pair of samples and class names.

    With `more`, classes may be known already, and training them continues on these samples; those
    that the model holds, in its memory or to be tested on, are left out.

    Of each class a share is held out, 100 samples at most, and kept for later tasks to be measured
    on. On a frozen backbone, `tune` trains the trunk as well, or the part of it from `tune_from`
    on, which serves if it is better. `sink` is told how it goes. If this fails or is interrupted,
    the model is as it was.
    """
    check_can_learn(model)
    check_share(held_out)
    if model.frozen is not None:
        from bntricks.model.pretrained import teach_features

        return teach_features(
            model,
            images,
            held_out=held_out,
            more=more,
            skip=skip_unreadable,
            sink=sink,
            tune=tune,
            tune_from=tune_from,
            epochs=epochs,
            lr=lr,
        )
    if tune or tune_from:
        raise UserError("it is for a frozen backbone: this model is trained anyway", option="tune")
    samples = gather(
        images,
        size=model.metadata.square,
        held_out=held_out,
        skip=skip_unreadable,
        report=reported(sink),
    )
    return teach(model, samples, epochs=epochs, lr=lr, more=more, sink=sink)


def teach(
    model: Model,
    samples: ClassSamples,
    *,
    epochs: int | None,
    lr: float | None,
    more: bool = False,
    sink: Sink,
    keep: Keep | None = None,
) -> Learned:
    """Learn these samples as the next task, continuing a lesson that was kept."""
    check_can_learn(model)
    learner, metadata = model.learner, model.metadata
    if more:
        samples = _not_held(model, samples)
    per_epoch = batch_count(len(samples.train), metadata.batch, even=metadata.even_batches)
    if epochs is None:
        epochs = max(EPOCHS, -(-STEPS // per_epoch))
    if epochs < 1:
        raise UserError("it must be at least 1", option="epochs", value=epochs)
    if lr is not None:
        check_rate(lr)
    check_samples(metadata, samples.train.x)
    known = check_classes(model, samples.names, more=more)
    if len(samples.train) < 2:
        raise UserError("there is one image to learn from: BatchNorm needs at least two")
    new = tuple(name for name in samples.names if name not in known)
    names = (*metadata.classes, *new)
    warn_of_a_small_memory(model, len(names), sink)
    outputs = torch.tensor([names.index(name) for name in samples.names])
    others = tuple(k for k, name in enumerate(metadata.classes) if name not in known)
    tests = Images(samples.test.x, outputs[samples.test.y])
    if (old := model.held_out) is not None:
        tests = Images(torch.cat([old.x, tests.x]), torch.cat([old.y, tests.y]))
    chooses = choosing(tests.y)
    confirming = ~chooses & (tests.y < len(metadata.classes))
    before = answers(model, Images(tests.x[confirming], tests.y[confirming]))

    steps = learner.cost.steps
    if lr is None:
        lr = metadata.lr if new else fitting_rate(metadata.lr, epochs * per_epoch)
    train = Images(samples.train.x, outputs[samples.train.y])
    kept = None if keep is None else keep(decides_bits(model, samples, epochs, lr))
    try:
        with undone_on_failure(learner):
            losses = learn_task(
                model,
                train,
                present=outputs.tolist(),
                others=others,
                outputs=len(names),
                epochs=epochs,
                lr=lr,
                sink=sink,
                kept=kept,
            )
            decision = settle_phi(learner, tests)
    except RunError:  # it would fail again
        if kept is not None:
            kept.remove()
        raise
    task = LearnedTask(
        classes=new, images=len(train), epochs=epochs, date=today(), more=tuple(known)
    )
    temperature = 1.0
    if chooses.any():
        temperature = temperature_of(learner.scores(tests.x[chooses]), tests.y[chooses])
    changes = {"taught": (*metadata.taught, task), "temperature": temperature}
    model.metadata, model.held_out = metadata.model_copy(update=changes), tests
    learned = conclude(
        model,
        before,
        len(train),
        held=0 if old is None else int((~choosing(old.y)).sum()),
        data=samples.digest,
        steps=learner.cost.steps - steps,
        lr=lr,
        unreadable=samples.unreadable,
        losses=losses,
    )
    return replace(learned, phi=decision)


def fitting_rate(rate: float, steps: int) -> float:
    """Return the highest rate of a lesson of so many steps that brings no new class: a network that
    knows its classes is not moved further by a short lesson than its few steps can mend."""
    return rate * min(1.0, steps / STEPS)


def learn_task(
    model: Model,
    train: Images,
    *,
    present: list[int],
    others: tuple[int, ...],
    outputs: int,
    epochs: int,
    lr: float,
    sink: Sink,
    kept: Checkpoints | None,
) -> list[float]:
    """Learn samples of these classes as a task, and return the mean loss of each epoch."""
    learner, metadata = model.learner, model.metadata
    learner.grow(outputs, lr=lr)
    learner.state.options = learner.state.options.model_copy(update={"epochs": epochs})
    if learner.memory is not None and others:
        # A reservoir keeps samples in proportion to what it is offered. Old classes count as if
        # each had been offered as often as a new one will be, so that none is crowded out by a
        # larger folder or more epochs.
        offers = epochs * len(train) * len(others) // len(present)
        learner.memory.offered = max(learner.memory.filled, offers)
    # Classes of which there are more images are new ones to this task: the rest is rehearsed.
    before = learner.state.lesson = replace(learner.state.lesson, new=(), old=others)
    lesson = next_lesson(before, present, len(train))
    saved = None if kept is None else restored(kept, learner, lesson, train.x, epochs)
    if saved is None:
        learner.begin(present, train.x, train.y)
    x, y = learner.mix_in_memory(train.x, train.y)
    steps = epochs * batch_count(len(y), metadata.batch, even=metadata.even_batches)
    progress = Progress(sink, total=steps)
    learner.state.report = progress.work
    position = Position()
    if saved is not None:
        position = Position(**dict(saved.place))
        progress.load_state_dict(dict(saved.losses), saved.step)
    save: Save = (lambda position, now: None) if kept is None else saving(kept, learner, progress)
    # A request to stop is obeyed between steps: within one, compiled code may swallow it.
    with postponed() as asked_to_stop:
        learn_epochs(
            learner,
            x,
            y,
            epochs=epochs,
            progress=progress,
            task=lesson.t,
            tasks=lesson.t,
            position=position,
            even_classes=not learner.method.mixes,  # a memory mixed in has few of each class
            stop=asked_to_stop,
            save=save,
        )
    save(position, position.seconds >= WORTH_KEEPING)
    learner.end(train.x, train.y)
    learner.net.eval()
    return progress.epoch_losses


@contextmanager
def undone_on_failure(learner: Learner) -> Iterator[None]:
    """Restore a learner if the body fails, is interrupted, or leaves weights that are not
    finite."""
    state, head, training = learner.state, last_linear(learner.net), learner.net.training
    parts, parameters = copy.copy(state), (head.weight, head.bias, head.out_features)
    values = copy.deepcopy(learner.state_dict())
    try:
        yield
        if not all(value.isfinite().all() for value in learner.net.state_dict().values()):
            raise RunError(
                "the network's weights are not finite after the last step: lower the learning rate",
                remedy="lr",
            )
    except BaseException:
        head.weight, head.bias, head.out_features = parameters
        # The optimiser among them is that of the parameters just put back.
        for part in fields(parts):
            setattr(state, part.name, getattr(parts, part.name))
        learner.load_state_dict(values)
        learner.net.train(training)
        raise


def _not_held(model: Model, samples: ClassSamples) -> ClassSamples:
    """Leave out samples that the model holds: those to be tested on must not be trained on, and the
    memory must hold none twice. Classes without remaining samples are left out."""
    memory, held_out = model.learner.memory, model.held_out
    held = [] if held_out is None else [held_out.x]
    if memory is not None and memory.x is not None:
        held.append(memory.x[: len(memory)].cpu())
    seen = {x.numpy().tobytes() for part in held for x in part}

    def unseen(images: Images) -> Images:
        rows = torch.tensor([x.numpy().tobytes() not in seen for x in images.x], dtype=torch.bool)
        return Images(images.x[rows], images.y[rows])

    train, test = unseen(samples.train), unseen(samples.test)
    remaining = sorted(set(train.y.tolist()))
    if not remaining:
        raise UserError("the model has all these images already: give others")
    place = torch.full((len(samples.names),), -1)
    place[remaining] = torch.arange(len(remaining))

    def of_remaining(images: Images) -> Images:
        y = place[images.y]
        return Images(images.x[y >= 0], y[y >= 0])

    names = tuple(samples.names[k] for k in remaining)
    return ClassSamples(names, of_remaining(train), of_remaining(test), samples.unreadable)
