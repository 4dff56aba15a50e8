"""The loop: train each task, then evaluate on all tasks seen so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch

from bntricks.batch import batch_count
from bntricks.methods import make
from bntricks.networks.resnet import ResNet
from bntricks.norm import drift, phi
from bntricks.recipes.as_published import corrupted
from bntricks.runs.checkpoint import Checkpoints, pack
from bntricks.runs.config import Config
from bntricks.runs.position import Place, batches, resume
from bntricks.runs.stopping import postponed
from bntricks.seeds import Generators, construction
from bntricks.streams import Images, Stream, Task
from bntricks.streams.augment import View
from bntricks.streams.tasks import in_one
from bntricks.training.allocator import keep_memory
from bntricks.training.compiling import compile_passes
from bntricks.training.distributed import ALONE, Ranks, Team
from bntricks.training.learner import Learner
from bntricks.training.progress import Sink, Watch
from bntricks.training.synchronised import synchronise

Track = Literal["deferred", "every-step"]

Probe = Callable[[Learner, Stream, int], None]
"""Looks at a learner when a task, counted from 0, is over, and moves no state."""


@dataclass
class Outcome:
    """A trained learner, and the accuracies measured on the way: R[i][j] on task j after task i,
    over all classes (Class-IL) and among the task's own (Task-IL)."""

    learner: Learner
    accuracy: list[list[float | None]]
    within: list[list[float | None]]
    train_seconds: list[float] = field(default_factory=list)
    evaluate_seconds: list[float] = field(default_factory=list)


def train(
    config: Config,
    stream: Stream,
    *,
    track: Track = "deferred",
    sink: Sink = lambda event: None,
    checkpoints: Checkpoints | None = None,
    probe: Probe | None = None,
    ranks: Ranks = ALONE,
) -> Outcome:
    """Through all tasks of the stream, from fresh weights or from the newest checkpoint."""
    torch.set_num_threads(config.threads)
    keep_memory()
    learner = build(config, stream, Generators.of(config.seed))
    learner.state.ranks = ranks
    if config.synchronised:
        synchronise(learner.net)
    if config.compile:
        compile_passes(learner, stream.shape)
    tasks = len(stream)
    outcome = Outcome(learner, unmeasured(tasks), unmeasured(tasks))
    # Joint learns once, after the last task has come; the others learn task by task.
    lessons = {tasks - 1: together(stream)} if learner.method.joint else dict(enumerate(stream))
    # Where the memory is mixed into every task but the first, its capacity is close enough.
    mixed_in = learner.memory.capacity if learner.memory is not None and learner.method.mixes else 0
    sizes = [len(lesson.train) + (mixed_in if index else 0) for index, lesson in lessons.items()]
    watch = Watch(sink, total=config.epochs * sum(batch_count(n, config.batch) for n in sizes))
    learner.state.report = watch.report
    order = learner.generators.order
    place, keep = resume(checkpoints, outcome, watch)

    for index, lesson in list(lessons.items())[place.lesson :]:
        start = time.perf_counter() - place.seconds
        if place.order is None:
            place.phi = phi(learner.net)
            learner.begin(lesson.classes, lesson.train.x, lesson.train.y)
        if track == "every-step":
            watch.more = partial(moved, learner, place)
        material = mixed(learner, lesson.train, stream)
        images = material.x.to(learner.device)
        per_epoch = batch_count(len(material), config.batch)
        # A rank that stops by itself would leave the others waiting.
        with postponed() if ranks.size == 1 else nullcontext(never) as asked_to_stop:
            for ids in batches(place, len(material), config.batch, config.epochs, order):
                # φ is next read when the task is over.
                until_read = (config.epochs - place.epoch) * per_epoch - place.batch + 1
                loss = learner.observe(
                    images[ids.to(learner.device)],
                    material.y[ids],
                    ids=ids,
                    horizon=until_read if track == "deferred" else None,
                )
                at = {"epoch": place.epoch + 1, "epochs": config.epochs}
                watch.step(loss, task=index + 1, of=tasks, **at)
                if place.batch == per_epoch:
                    watch.tell("epoch")
                place.seconds = time.perf_counter() - start
                stop = asked_to_stop()
                keep(place, now=stop)
                if stop:
                    break
        keep(place, now=True)
        learner.end(lesson.train.x, lesson.train.y)
        outcome.train_seconds.append(time.perf_counter() - start)

        start = time.perf_counter()
        for j, task in enumerate(stream[: index + 1]):
            outcome.accuracy[index][j], outcome.within[index][j] = evaluate(learner, task)
        outcome.evaluate_seconds.append(time.perf_counter() - start)
        if probe is not None:
            probe(learner, stream, index)
        row = {"task": index + 1, "accuracy": outcome.accuracy[index], "step": watch.done}
        sink({"event": "task", **row, **moved(learner, place)})
        if isinstance(ranks, Team):
            ranks.agree(pack(learner.state_dict()), f"what they learned in task {index + 1}")
        place = Place(place.lesson + 1)
        keep(place, now=True)
    return outcome


def never() -> bool:
    return False


def moved(learner: Learner, place: Place) -> dict[str, Any]:
    """How far φ has moved since the task began."""
    return {"phi_drift": drift(learner.net, place.phi)}


def unmeasured(tasks: int) -> list[list[float | None]]:
    return [[None] * tasks for _ in range(tasks)]


def evaluate(learner: Learner, task: Task) -> tuple[float, float]:
    """Accuracy in percent on a task's test images: over all classes, and within the task."""
    scores = learner.scores(task.test.x)
    classes = torch.tensor(task.classes)
    within = classes[scores[:, classes].argmax(1)]
    hits = [(p == task.test.y).double().mean().item() for p in (scores.argmax(1), within)]
    return 100 * hits[0], 100 * hits[1]


def build(config: Config, stream: Stream, generators: Generators) -> Learner:
    """A fresh network and all that goes with it, on its device."""
    with construction(generators.init):
        net = ResNet(
            len(stream.class_names),
            channels=stream.shape[0],
            width=config.width,
            blocks=config.blocks,
            stages=config.stages,
        )
    augment = config.augment == "standard"
    return Learner(
        net.to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        make(config.method, **config.hyper),
        memory=config.memory or stream.memory,
        lr=config.lr,
        seed=generators,
        view=View(stream.mean, stream.std, stream.pad if augment else 0, stream.flip and augment),
        device=config.device,
        batch=config.batch,
        memory_batch=config.memory_batch,
        epochs=config.epochs,
        tasks=len(stream),
        rule=config.balance,
        precision=config.precision,
        as_published=config.as_published,
    )


def mixed(learner: Learner, images: Images, stream: Stream) -> Images:
    """What an epoch runs over; the published code corrupted what it mixed in."""
    back = partial(corrupted, stream=stream) if learner.state.as_published else None
    return Images(*learner.mixed(images.x, images.y, back))


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
