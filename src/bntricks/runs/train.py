"""One run: train each task, then evaluate on all tasks seen so far."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from statistics import fmean
from typing import Any
from warnings import warn

import torch
from torch import Tensor

from bntricks.batch import batch_count
from bntricks.errors import UserError
from bntricks.methods.build import build_learner
from bntricks.norm import drift, phi
from bntricks.recipes.as_published import corrupted
from bntricks.runs.config import Config
from bntricks.runs.evaluation import Outcome, after_epoch, after_task, before_training, foresees
from bntricks.runs.readings import readings, recipe
from bntricks.runs.request import Request
from bntricks.runs.resolve import capacity, with_hyper
from bntricks.runs.saved import SavedRun, checked
from bntricks.runs.start import Start, go_on_from
from bntricks.streams import Images, Stream, Task, View
from bntricks.streams.apply import apply_options
from bntricks.streams.tasks import in_one
from bntricks.system.devices import to_device
from bntricks.system.stopping import postponed
from bntricks.training.backend import arithmetic, compile_passes, keep_freed_memory
from bntricks.training.checkpoint import Checkpoints, pack
from bntricks.training.distributed import ALONE, Ranks, Team, synchronise
from bntricks.training.events import Event, Sink, silent, warning
from bntricks.training.learner import Learner
from bntricks.training.loop import Position, Save, learn_epochs
from bntricks.training.progress import Progress
from bntricks.training.readings import Readings
from bntricks.training.saved import fitting

LOST = 10
"""A loss of more than this many times that of guessing does not come down again."""
Probe = Callable[[Learner, Stream, int], None]
"""Called with a learner when a task, counted from 0, is over; changes no state."""


def train(
    config: Config,
    stream: Stream,
    request: Request | None = None,
    *,
    sink: Sink = silent,
    checkpoints: Checkpoints | None = None,
    probe: Probe | None = None,
    ranks: Ranks = ALONE,
    **options: Any,
) -> Outcome:
    """Train on all tasks of the stream, from fresh weights or from the newest checkpoint, and
    evaluate after each task and, if `epoch_accuracy` is requested, after each epoch. With
    `readings`, labels are read off in every way that this training allows. `options` are those of a
    `Request`, if none is given. Stream options of the configuration that the stream was not opened
    with are applied to it."""
    if "read" in options:  # until 0.4
        warn("train(read=…) is now called readings", FutureWarning, stacklevel=2)
        options["readings"] = options.pop("read")
    request = Request.of(**options) if request is None else request
    stream = apply_options(stream, **config.rearrangement)
    with arithmetic(config.precision, deterministic=config.deterministic):
        return _train(config, stream, request, sink, checkpoints, probe, ranks)


def _train(
    config: Config,
    stream: Stream,
    request: Request,
    sink: Sink,
    checkpoints: Checkpoints | None,
    probe: Probe | None,
    ranks: Ranks,
) -> Outcome:
    torch.set_num_threads(config.threads)
    keep_freed_memory()
    learner = build(config, stream)
    learner.state.ranks = ranks
    if config.synchronised:
        synchronise(learner.net)
    if config.compile:
        compile_passes(learner, stream.shape)
    every_step = request.track == "every-step"
    tasks, over = len(stream), 0
    if request.start is not None:
        over = go_on_from(Start.read(request.start), learner, stream, epochs=config.epochs)
    reader = Readings(learner, readings(config)) if request.readings else None
    outcome = Outcome.unmeasured(learner, tasks, reader)
    if request.epoch_accuracy and not (foresees(learner) or learner.method.joint):
        raise UserError(
            f"{config.method} reads labels off what it keeps when a task is over, so it has no "
            "accuracy before that",
            option="epoch_accuracy",
        )
    # Joint learns once, after the last task has come; the others learn task by task.
    lessons = {tasks - 1: together(stream)} if learner.method.joint else dict(enumerate(stream))
    left = {index: lesson for index, lesson in lessons.items() if index >= over}
    progress = Progress(sink, total=total_steps(learner, left, config))
    learner.state.report = progress.work
    check = partial(checked, config=config, stream=stream, lessons=list(lessons.values()))
    position, save = resume(checkpoints, outcome, progress, partial(check, net=learner.net))
    if position.lesson == 0 and position.order is None:
        if over:
            after_task(outcome, stream, over - 1)
            if probe is not None:
                probe(learner, stream, over - 1)
            outcome.train_seconds, outcome.evaluate_seconds = [0.0] * over, [0.0] * over
            position = Position(over)
        else:
            before_training(outcome, stream)

    warned = False

    def epoch_over(index: int, epoch: int) -> None:
        accuracy = after_epoch(outcome, stream, index, epoch)
        event: Event = {"event": "evaluation", "task": index + 1, "epoch": epoch}
        sink(event | {"accuracy": accuracy, "step": progress.done})

    for index, lesson in list(lessons.items())[position.lesson :]:
        start = time.perf_counter() - position.seconds
        if position.order is None:
            position.phi = phi(learner.net)
            train = lesson.train
            learner.begin(lesson.classes, train.x, train.y, visitors=lesson.visitors)
            position.seconds = time.perf_counter() - start
        if every_step:
            progress.drift = partial(moved, learner, position)
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
                every_step=every_step,
                epoch_over=partial(epoch_over, index) if request.epoch_accuracy else None,
                stop=asked_to_stop,
                save=save,
            )
        save(position, True)
        learner.end(lesson.train.x, lesson.train.y)
        outcome.train_seconds.append(time.perf_counter() - start)

        start = time.perf_counter()
        after_task(outcome, stream, index)
        outcome.evaluate_seconds.append(time.perf_counter() - start)
        loss = progress.epoch_losses[-1] if progress.epoch_losses else 0.0
        chance = math.log(len(stream.class_names))
        if not warned and loss > LOST * chance and is_chance(outcome.accuracy[index], stream):
            warned = True
            warning(sink)(
                f"after task {index + 1} the loss is {loss:.3g}, where guessing has {chance:.1f}, "
                f"and accuracy is at chance: lower the learning rate, which is {config.lr:g}"
            )
        if probe is not None:
            probe(learner, stream, index)
        event: Event = {"event": "task", "task": index + 1, "accuracy": outcome.accuracy[index]}
        sink(event | {"step": progress.done, "phi_drift": moved(learner, position)})
        if isinstance(ranks, Team):
            ranks.agree(pack(learner.state_dict()), f"what they learned in task {index + 1}")
        position = Position(position.lesson + 1)
        save(position, True)
    return outcome


def is_chance(accuracy: Sequence[float | None], stream: Stream) -> bool:
    """Whether the accuracies of all tasks so far are about those of guessing."""
    known = {task: own for task, own in enumerate(accuracy) if own is not None}
    classes = sum(len(stream[task].classes) for task in known)
    return fmean(known.values()) <= 150 / classes


def build(config: Config, stream: Stream) -> Learner:
    """Make a learner with a fresh network, on its device."""
    augment = config.augment == "standard"
    config = with_hyper(config, stream.name)
    config = config.model_copy(update={"memory": capacity(config, stream)})
    return build_learner(
        recipe(config),
        config.hyper,
        config,
        net=config,
        shape=stream.shape,
        outputs=len(stream.class_names),
        seed=config.seed,
        view=View(stream.mean, stream.std, stream.pad if augment else 0, stream.flip and augment),
        device=config.device,
        tasks=len(stream),
    )


def resume(
    checkpoints: Checkpoints | None,
    outcome: Outcome,
    progress: Progress,
    check: Callable[[dict[str, Any]], SavedRun],
) -> tuple[Position, Save]:
    """Restore the newest checkpoint; return its position, and a function that saves later ones."""
    apart = {"learner", "reader"} | ({"readings"} if outcome.reader is None else set())
    measured = [each.name for each in fields(outcome) if each.name not in apart]
    whole_tasks = outcome.learner.method.runs_over_a_moving_memory

    def save(position: Position, now: bool) -> None:
        if checkpoints is None or not (now or checkpoints.due()):
            return
        if whole_tasks and position.order is not None:
            return
        progress.check()  # a loss that is not finite is not worth saving
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
    with fitting("run", "train again from the start", option="force"):
        content = check(saved)
        outcome.learner.load_state_dict(dict(content.learner))
        for name in measured:
            setattr(outcome, name, getattr(content.measured, name))
        position, progress.done = Position(**dict(content.place)), content.step
        position.phi = {
            name: {key: to_device(value, outcome.learner.device) for key, value in then.items()}
            for name, then in position.phi.items()
        }
    progress.sink({"event": "resumed", "step": progress.done, "steps": progress.total})
    return position, save


def with_memory(learner: Learner, images: Images, stream: Stream) -> tuple[Tensor, Tensor]:
    """Return an epoch's samples; the published code corrupted what it mixed in."""
    change = partial(corrupted, stream=stream) if learner.state.options.as_published else None
    return learner.mix_in_memory(images.x, images.y, change)


def total_steps(learner: Learner, lessons: dict[int, Task], config: Config) -> int:
    """Estimate the number of steps: a memory that is mixed in counts as full after a task."""
    mixed_in = learner.memory.capacity if learner.memory is not None and learner.method.mixes else 0
    sizes = [len(lesson.train) + (mixed_in if index else 0) for index, lesson in lessons.items()]
    return config.epochs * sum(
        batch_count(size, config.batch, even=config.even_batches) for size in sizes
    )


def moved(learner: Learner, position: Position) -> dict[str, float]:
    """Measure how far φ has moved since the task began."""
    return drift(learner.net, position.phi)


def together(stream: Stream) -> Task:
    """Merge all tasks into one."""
    return Task(
        tuple(c for task in stream for c in task.classes),
        train=Images(
            in_one([task.train.x for task in stream]),
            torch.cat([task.train.y for task in stream]),
        ),
        test=stream[-1].test,
    )
