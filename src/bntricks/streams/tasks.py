"""From decoded images to tasks: which classes arrive together, and in which order. A label is the
position of its class in the order of arrival.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, chain

import torch
from torch import Tensor

from bntricks.errors import UserError
from bntricks.streams.files.decoded import Decoded, Part
from bntricks.streams.stream import Images, Task

Order = tuple[tuple[int, ...], ...]
"""For each task the classes it brings, as their positions in the decoded images."""


def in_blocks_of(classes: int, per_task: int) -> Order:
    """Consecutive classes, per_task at a time; the last task may have fewer."""
    if per_task < 1:
        raise UserError(f"classes_per_task is {per_task}: it must be at least 1")
    every = range(classes)
    return tuple(tuple(every[start : start + per_task]) for start in range(0, classes, per_task))


def by_name(tasks: Sequence[Sequence[str]], positions: dict[str, int]) -> Order:
    """The tasks as the user listed them: every class exactly once."""
    listed = list(chain.from_iterable(tasks))
    unknown = [name for name in listed if name not in positions]
    if unknown:
        raise UserError(
            f"tasks name {_list(unknown)}, which there is not; the classes are {_list(positions)}"
        )
    order = tuple(tuple(positions[name] for name in task) for task in tasks)
    times = Counter(chain.from_iterable(order))
    twice = [name for name in dict.fromkeys(listed) if times[positions[name]] > 1]
    if twice:
        raise UserError(f"tasks list {_list(twice)} more than once: a class arrives in one task")
    left_out = [name for name, position in positions.items() if position not in times]
    if left_out:
        raise UserError(
            f"tasks leave out {_list(left_out)}: put every class into a task, or move it away"
        )
    if not all(order):
        raise UserError("tasks contain an empty task: every task needs at least one class")
    return order


def with_order(fingerprint: str, order: Order) -> str:
    """For tasks that the user chose: labels follow the order, so other tasks are other data."""
    return hashlib.sha256(f"{fingerprint} {order}".encode()).hexdigest()[:16]


def arrange(
    decoded: Decoded, order: Order, images_per_class: int | None = None
) -> tuple[tuple[Task, ...], tuple[str, ...]]:
    """The tasks and the names of their labels. Test images are never cut down."""
    tasks = []
    label = 0
    for classes in order:
        labels = tuple(range(label, label + len(classes)))
        tasks.append(
            Task(
                labels,
                _take(decoded.train, classes, labels, images_per_class),
                _take(decoded.test, classes, labels, None),
            )
        )
        label += len(classes)
    return tuple(tasks), tuple(decoded.class_names[k] for k in chain.from_iterable(order))


def first_task_moments(tasks: Sequence[Task]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel of the first task's training images, in [0, 1]."""
    mean, std = [], []
    values = torch.arange(256, dtype=torch.float64) / 255
    for channel in tasks[0].train.x.unbind(1):
        parts = torch.split(channel, 1024)  # counting copies what it counts
        counts = torch.stack([torch.bincount(part.flatten(), minlength=256) for part in parts])
        share = counts.sum(0).double() / channel.numel()
        centre = (share * values).sum()
        spread = (share * (values - centre) ** 2).sum().sqrt()
        mean.append(round(centre.item(), 6))
        std.append(round(spread.item(), 6) or 1.0)  # a channel of one colour is only shifted
    return tuple(mean), tuple(std)


def _take(part: Part, classes: Sequence[int], labels: Sequence[int], at_most: int | None) -> Images:
    starts = [0, *accumulate(part.counts)]
    kept = [part.counts[k] if at_most is None else min(at_most, part.counts[k]) for k in classes]
    y = torch.tensor(labels).repeat_interleave(torch.tensor(kept))
    pieces = [part.x.narrow(0, starts[k], n) for k, n in zip(classes, kept, strict=True)]
    return Images(in_one(pieces), y)


def in_one(pieces: Sequence[Tensor]) -> Tensor:
    """Their rows, one after the other: a view where they lie so in memory, so that workers go on
    sharing the decoded images; else a copy."""
    first, rows = pieces[0], sum(map(len, pieces))
    memory = first.untyped_storage().data_ptr()
    ends = accumulate((piece.nbytes for piece in pieces), initial=first.data_ptr())
    if all(
        piece.untyped_storage().data_ptr() == memory
        and piece.is_contiguous()
        and piece.data_ptr() == end
        for piece, end in zip(pieces, ends, strict=False)
    ):
        return first.as_strided((rows, *first.shape[1:]), first.stride())
    return torch.cat(list(pieces))


def _list(names: Sequence[str] | dict[str, int]) -> str:
    first = [repr(name) for name in names][:10]
    return ", ".join(first) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
