"""The network of a run as a model file, after its last task or after each: what `predict`,
`diagnose`, `recalibrate`, `export` and `learn` read. Saving changes nothing of the run."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import torch

from bntricks.model.adopt import from_learner
from bntricks.model.file import save as write
from bntricks.model.history import today
from bntricks.model.metadata import LearnedTask, Metadata, Network, Preprocessing
from bntricks.runs.config import Config
from bntricks.runs.resolve import capacity, with_hyper
from bntricks.streams import Stream, Task, View
from bntricks.training.checkpoint import versions
from bntricks.training.learner import Learner

When = Literal["end", "every task"]
NAME = "model.safetensors"


def path_in(folder: Path, task: int | None = None) -> Path:
    """Return the path of the final model, or of that after a task, counted from 1."""
    return folder / (NAME if task is None else f"model-after-task-{task}.safetensors")


def paths_in(folder: Path, when: When, tasks: int) -> list[Path]:
    """List all models of a finished run."""
    earlier = range(1, tasks) if when == "every task" else ()
    return [*(path_in(folder, task) for task in earlier), path_in(folder)]


def save(learner: Learner, stream: Stream, index: int, *, config: Config, path: Path) -> None:
    """Save the learner as a model when this task, counted from 0, is over."""
    seen = stream[: index + 1]
    tasks = _new_classes(seen)
    metadata = _describe(config, stream, learner, seen, tasks)
    labels = [label for classes in tasks for label in classes]
    write(from_learner(learner, metadata, labels), path, memory=not learner.method.joint)


def _new_classes(seen: Sequence[Task]) -> list[tuple[int, ...]]:
    """List the classes of each task that no earlier one had: its own and, if boundaries are blurry,
    those of which some images came early."""
    known: set[int] = set()
    tasks = []
    for task in seen:
        labels = dict.fromkeys((*task.classes, *torch.unique(task.train.y).tolist()))
        tasks.append(tuple(label for label in labels if label not in known))
        known.update(labels)
    return [classes for classes in tasks if classes]


def _describe(
    config: Config,
    stream: Stream,
    learner: Learner,
    seen: Sequence[Task],
    tasks: list[tuple[int, ...]],
) -> Metadata:
    plain = config.net == "resnet" and config.norm == "bn" and config.momentum is None
    shape = config.model_dump(include={"width", "blocks", "stages"})
    policy, view = learner.method.memory, learner.view
    assert isinstance(view, View)
    return Metadata.of(
        **config.model_dump(
            include={"method", "lr", "optimiser", "schedule", "even_batches", "seed"}
            | {"batch", "memory_batch"}
        ),
        versions=versions(),
        hyper=with_hyper(config, stream.name).hyper,
        memory=capacity(config, stream),
        tasks=len(stream) if policy is not None and policy.needs_task_count else None,
        # A model file can only describe the plain network; others need their owner's code.
        network=Network(channels=stream.shape[0], **shape) if plain else None,
        shape=stream.shape,
        view=Preprocessing(**asdict(view)) if stream.has_images else None,
        taught=tuple(
            LearnedTask(
                classes=tuple(stream.class_names[label] for label in classes),
                images=sum(
                    int((task.train.y == label).sum()) for task in seen for label in classes
                ),
                epochs=config.epochs,
                date=today(),
            )
            for classes in tasks
        ),
    )
