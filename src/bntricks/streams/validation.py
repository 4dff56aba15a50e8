"""A stream to choose hyper-parameters on: some of its training images take the place of its test
images, which are left for the end."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import torch
from torch import Tensor

from bntricks.errors import UserError
from bntricks.streams.stream import Images, Stream, Task


def with_validation(stream: Stream, share: float) -> Stream:
    """The same tasks, tested on this share of each class's training images, which are no longer
    trained on. Which images these are depends on nothing but their order and the share, so runs
    with different seeds are tested on the same ones."""
    tasks = tuple(_cut(task, share, stream.class_names) for task in stream)
    text = f"{stream.fingerprint} validation {share}"
    fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
    return replace(stream, tasks=tasks, fingerprint=fingerprint)


def _cut(task: Task, share: float, names: tuple[str, ...]) -> Task:
    held_out = torch.zeros(len(task.train), dtype=torch.bool)
    for label in sorted(set(task.train.y.tolist())):
        rows = (task.train.y == label).nonzero().flatten()
        if len(rows) < 2:
            raise UserError(
                f"{names[label]} has one training image, and a class needs another one to be "
                "tested on: add images",
                option="validation",
                value=share,
            )
        held_out[rows[_spread(len(rows), share)]] = True
    x, y = task.train.x, task.train.y
    return Task(task.classes, Images(x[~held_out], y[~held_out]), Images(x[held_out], y[held_out]))


def _spread(count: int, share: float) -> Tensor:
    """Positions at equal distances, as files are often sorted: at least one, and not all."""
    number = min(max(round(share * count), 1), count - 1)
    return ((torch.arange(number) + 0.5) * count / number).long()
