"""The loop: train each task, then evaluate on all tasks seen so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

import torch

from bntricks.batch import batch_count, shuffled
from bntricks.config import Config
from bntricks.learner import Learner
from bntricks.methods import make
from bntricks.nets import ResNet
from bntricks.quirks import corrupted
from bntricks.seeds import Generators, construction
from bntricks.streams import Images, Stream, Task
from bntricks.streams.augment import View
from bntricks.watch import Sink, Watch

Track = Literal["deferred", "every-step"]


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
    config: Config, stream: Stream, *, track: Track = "deferred", sink: Sink = lambda event: None
) -> Outcome:
    """From fresh weights through all tasks of the stream. Touches no disk."""
    torch.set_num_threads(config.threads)
    generators = Generators.of(config.seed)
    learner = build(config, stream, generators)
    tasks = len(stream)
    outcome = Outcome(learner, unmeasured(tasks), unmeasured(tasks))
    # Joint learns once, after the last task has come; the others learn task by task.
    lessons = {tasks - 1: together(stream)} if learner.method.joint else dict(enumerate(stream))
    # Where the memory is mixed into every task but the first, its capacity is close enough.
    mixed_in = learner.memory.capacity if learner.memory is not None and learner.method.mixes else 0
    sizes = [len(lesson.train) + (mixed_in if index else 0) for index, lesson in lessons.items()]
    watch = Watch(sink, total=config.epochs * sum(batch_count(n, config.batch) for n in sizes))
    learner.state.report = watch.report

    for index, lesson in lessons.items():
        start = time.perf_counter()
        learner.begin(lesson.classes, lesson.train.x, lesson.train.y)
        material = mixed(learner, lesson.train, stream)
        images = material.x.to(learner.device)
        # φ is next read when the task is over.
        until_read = config.epochs * batch_count(len(material), config.batch)
        for epoch in range(config.epochs):
            for ids in shuffled(len(material), config.batch, generators.order):
                loss = learner.observe(
                    images[ids.to(learner.device)],
                    material.y[ids],
                    ids=ids,
                    horizon=until_read if track == "deferred" else None,
                )
                until_read -= 1
                watch.step(loss, task=index + 1, of=tasks, epoch=epoch + 1, epochs=config.epochs)
            watch.tell("epoch")
        learner.end(lesson.train.x, lesson.train.y)
        outcome.train_seconds.append(time.perf_counter() - start)

        start = time.perf_counter()
        for j, task in enumerate(stream[: index + 1]):
            outcome.accuracy[index][j], outcome.within[index][j] = evaluate(learner, task)
        outcome.evaluate_seconds.append(time.perf_counter() - start)
        sink({"event": "task", "task": index + 1, "accuracy": outcome.accuracy[index]})
    return outcome


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
    """What an epoch runs over: the task, with the memory mixed in where the recipe says so."""
    memory = learner.memory
    if not learner.method.mixes or not memory or memory.x is None:
        return images
    stored = memory.x[: memory.filled].cpu()
    if learner.state.as_published:
        stored = corrupted(stored, stream)
    return Images(torch.cat([images.x, stored]), torch.cat([images.y, memory.y[: memory.filled]]))


def together(stream: Stream) -> Task:
    """All tasks as one."""
    return Task(
        tuple(c for task in stream for c in task.classes),
        train=Images(
            torch.cat([task.train.x for task in stream]),
            torch.cat([task.train.y for task in stream]),
        ),
        test=stream[-1].test,
    )
