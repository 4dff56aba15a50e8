"""One run: train each task, then evaluate on all tasks seen so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from typing import Any, Literal

import torch
from pydantic import ValidationError
from torch import Tensor

from bntricks.batch import batch_count
from bntricks.errors import UserError, first_mistake
from bntricks.files import shown
from bntricks.methods.build import build_learner
from bntricks.norm import drift, phi
from bntricks.recipes.as_published import corrupted
from bntricks.runs.checkpoint import Checkpoints, pack
from bntricks.runs.config import Config
from bntricks.runs.evaluation import Outcome, after_epoch, after_task, before_training, foresees
from bntricks.runs.norms import network_options
from bntricks.runs.readings import readings, recipe
from bntricks.runs.resolve import with_hyper
from bntricks.runs.saved import Saved, checked
from bntricks.streams import Images, Stream, Task, View
from bntricks.streams.tasks import in_one
from bntricks.system.devices import to_device
from bntricks.system.stopping import postponed
from bntricks.training.backend import arithmetic, compile_passes, keep_freed_memory
from bntricks.training.distributed import ALONE, Ranks, Team, synchronise
from bntricks.training.learner import Learner
from bntricks.training.loop import Position, learn_epochs
from bntricks.training.progress import Progress, Sink
from bntricks.training.schedules import SCHEDULES

Track = Literal["deferred", "every-step"]

Probe = Callable[[Learner, Stream, int], None]
"""Looks at a learner when a task, counted from 0, is over, and moves no state."""

Save = Callable[[Position, bool], None]
"""Saves a checkpoint at a position: now, or else if one is due."""


def train(
    config: Config,
    stream: Stream,
    *,
    track: Track = "deferred",
    sink: Sink = lambda event: None,
    checkpoints: Checkpoints | None = None,
    probe: Probe | None = None,
    ranks: Ranks = ALONE,
    epoch_accuracy: bool = False,
    read: bool = False,
) -> Outcome:
    """Through all tasks of the stream, from fresh weights or from the newest checkpoint; evaluated
    after each task and, if `epoch_accuracy` is wanted, after each epoch. With `read`, labels are
    read off in every way that this training allows."""
    with arithmetic(config.precision, deterministic=config.deterministic):
        return _train(config, stream, track, sink, checkpoints, probe, ranks, epoch_accuracy, read)


def _train(
    config: Config,
    stream: Stream,
    track: Track,
    sink: Sink,
    checkpoints: Checkpoints | None,
    probe: Probe | None,
    ranks: Ranks,
    epoch_accuracy: bool,
    read: bool,
) -> Outcome:
    torch.set_num_threads(config.threads)
    keep_freed_memory()
    learner = build(config, stream, read=read)
    learner.state.ranks = ranks
    if config.synchronised:
        synchronise(learner.net)
    if config.compile:
        compile_passes(learner, stream.shape)
    tasks = len(stream)
    outcome = Outcome.unmeasured(learner, tasks, read=read)
    if epoch_accuracy and not (foresees(learner) or learner.method.joint):
        raise UserError(
            f"{config.method} reads labels off what it keeps when a task is over, so it has no "
            "accuracy before that",
            option="epoch_accuracy",
        )
    # Joint learns once, after the last task has come; the others learn task by task.
    lessons = {tasks - 1: together(stream)} if learner.method.joint else dict(enumerate(stream))
    progress = Progress(sink, total=total_steps(learner, lessons, config))
    learner.state.report = progress.work
    check = partial(checked, config=config, stream=stream, lessons=list(lessons.values()))
    position, save = resume(checkpoints, outcome, progress, partial(check, net=learner.net))
    if position.lesson == 0 and position.order is None:
        before_training(outcome, stream)

    def epoch_over(index: int, epoch: int) -> None:
        row = after_epoch(outcome, stream, index, epoch)
        sink({"event": "evaluation", **row, "step": progress.done})

    for index, lesson in list(lessons.items())[position.lesson :]:
        start = time.perf_counter() - position.seconds
        if position.order is None:
            position.phi = phi(learner.net)
            train = lesson.train
            learner.begin(lesson.classes, train.x, train.y, visitors=lesson.visitors)
        if track == "every-step":
            progress.details = partial(moved, learner, position)
        # A rank that stops by itself would leave the others waiting.
        with postponed() if ranks.size == 1 else nullcontext(lambda: False) as asked_to_stop:
            learn_epochs(
                learner,
                *with_memory(learner, lesson.train, stream),
                epochs=config.epochs,
                progress=progress,
                task=index + 1,
                tasks=tasks,
                position=position,
                every_step=track == "every-step",
                epoch_over=partial(epoch_over, index) if epoch_accuracy else None,
                stop=partial(after_step, position, start, asked_to_stop, save),
            )
        save(position, True)
        learner.end(lesson.train.x, lesson.train.y)
        outcome.train_seconds.append(time.perf_counter() - start)

        start = time.perf_counter()
        after_task(outcome, stream, index)
        outcome.evaluate_seconds.append(time.perf_counter() - start)
        if probe is not None:
            probe(learner, stream, index)
        row = {"task": index + 1, "accuracy": outcome.accuracy[index], "step": progress.done}
        sink({"event": "task", **row, **moved(learner, position)})
        if isinstance(ranks, Team):
            ranks.agree(pack(learner.state_dict()), f"what they learned in task {index + 1}")
        position = Position(position.lesson + 1)
        save(position, True)
    return outcome


def after_step(
    position: Position, start: float, asked_to_stop: Callable[[], bool], save: Save
) -> bool:
    """Save a checkpoint if one is due, or if the run is asked to stop; whether it is."""
    position.seconds = time.perf_counter() - start
    stop = asked_to_stop()
    save(position, stop)
    return stop


def build(config: Config, stream: Stream, *, read: bool = False) -> Learner:
    """A fresh network and all that goes with it, on its device; with its readings, if asked to."""
    augment = config.augment == "standard"
    config = with_hyper(config, stream.name)
    return build_learner(
        recipe(config),
        config.hyper,
        net=config.net,
        shape=stream.shape,
        outputs=len(stream.class_names),
        seed=config.seed,
        network=network_options(config, len(stream)),
        memory=config.memory or stream.memory,
        lr=config.lr,
        optimiser=config.optimiser,
        sgd_momentum=config.sgd_momentum,
        weight_decay=config.weight_decay,
        clip=config.clip,
        schedule=SCHEDULES.find(config.schedule),
        even_batches=config.even_batches,
        view=View(stream.mean, stream.std, stream.pad if augment else 0, stream.flip and augment),
        device=config.device,
        batch=config.batch,
        memory_batch=config.memory_batch,
        epochs=config.epochs,
        tasks=len(stream),
        rule=config.balance,
        precision=config.precision,
        as_published=config.as_published,
        readings=readings(config) if read else {},
    )


def resume(
    checkpoints: Checkpoints | None,
    outcome: Outcome,
    progress: Progress,
    check: Callable[[dict[str, Any]], Saved],
) -> tuple[Position, Save]:
    """The position to go on from, with everything as it was there, and how to save later ones."""
    unread = {"learner"} if outcome.readings is not None else {"learner", "readings"}
    measured = [each.name for each in fields(outcome) if each.name not in unread]
    method = outcome.learner.method
    # What such a task runs over cannot be made again once the memory has moved on.
    whole_tasks = method.mixes and method.memory is not None and method.memory.fills == "step"

    def save(position: Position, now: bool) -> None:
        if checkpoints is None or not (now or checkpoints.due()):
            return
        if whole_tasks and position.order is not None:
            return
        progress.check()  # what is not finite is not worth going on from
        checkpoints.save(
            {
                "learner": outcome.learner.state_dict(),
                "measured": {name: getattr(outcome, name) for name in measured},
                "place": vars(position),
                "step": progress.done,
            }
        )

    saved = None if checkpoints is None else checkpoints.load()
    if saved is None:
        return Position(), save
    try:
        content = check(saved)
        outcome.learner.load_state_dict(dict(content.learner))
        for name in measured:
            setattr(outcome, name, getattr(content.measured, name))
        position, progress.done = Position(**dict(content.place)), content.step
        position.phi = {
            name: {key: to_device(value, outcome.learner.device) for key, value in then.items()}
            for name, then in position.phi.items()
        }
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, ValidationError):
            reason = first_mistake(error)
        else:
            reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(
            f"the checkpoint does not fit this run ({shown(reason)}): train again from the start",
            remedy="force",
        ) from None
    progress.sink({"event": "resumed", "step": progress.done, "steps": progress.total})
    return position, save


def with_memory(learner: Learner, images: Images, stream: Stream) -> tuple[Tensor, Tensor]:
    """What an epoch runs over; the published code corrupted what it mixed in."""
    change = partial(corrupted, stream=stream) if learner.state.as_published else None
    return learner.mix_in_memory(images.x, images.y, change)


def total_steps(learner: Learner, lessons: dict[int, Task], config: Config) -> int:
    """Where the memory is mixed into every task but the first, its capacity is close enough."""
    mixed_in = learner.memory.capacity if learner.memory is not None and learner.method.mixes else 0
    sizes = [len(lesson.train) + (mixed_in if index else 0) for index, lesson in lessons.items()]
    return config.epochs * sum(
        batch_count(size, config.batch, even=config.even_batches) for size in sizes
    )


def moved(learner: Learner, position: Position) -> dict[str, Any]:
    """How far φ has moved since the task began."""
    return {"phi_drift": drift(learner.net, position.phi)}


def together(stream: Stream) -> Task:
    """All tasks as one."""
    return Task(
        tuple(c for task in stream for c in task.classes),
        train=Images(
            in_one([task.train.x for task in stream]),
            torch.cat([task.train.y for task in stream]),
        ),
        test=stream[-1].test,
    )
