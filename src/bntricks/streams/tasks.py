"""From a data set to tasks: which classes arrive together, and in which order. A label is the
position of its class in the order of arrival.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any

import torch
from torch import Tensor

from bntricks.errors import UserError, abbreviated
from bntricks.streams.files.dataset import Dataset, Split
from bntricks.streams.stream import Images, Stream, Task

CLASSES_PER_TASK = 2

Order = tuple[tuple[int, ...], ...]
"""The classes of each task, as their positions in the data set."""
Moments = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation per channel, for pixels in [0, 1]."""


def in_blocks_of(classes: int, per_task: int) -> Order:
    """Cut consecutive classes into tasks of this size; the last may have fewer."""
    if per_task < 1:
        raise UserError("it must be at least 1", option="classes_per_task", value=per_task)
    positions = range(classes)
    return tuple(tuple(positions[k : k + per_task]) for k in range(0, classes, per_task))


def choose_order(
    names: Sequence[str],
    classes_per_task: int | None,
    tasks: Sequence[Sequence[str]] | None,
) -> Order:
    """Put classes into tasks of one size in the order of their names, or as `tasks` lists them."""
    if tasks is None:
        per_task = CLASSES_PER_TASK if classes_per_task is None else classes_per_task
        return in_blocks_of(len(names), per_task)
    if classes_per_task is not None:
        raise UserError("both tasks and classes_per_task are given: leave one of them out")
    if isinstance(tasks, str) or any(isinstance(task, str) for task in tasks):
        raise UserError(
            "it must be a list of lists of classes, such as [['cat', 'dog'], ['owl']]",
            option="tasks",
        )
    listed = list(chain.from_iterable(tasks))
    unknown = [name for name in listed if name not in names]
    repeated = [name for name, count in Counter(listed).items() if count > 1]
    missing = [name for name in names if name not in listed]
    for problem, wrong, remedy in (
        ("no such class", unknown, f"the classes are {abbreviated([*map(repr, names)], 10)}"),
        ("listed more than once", repeated, "a class arrives in one task"),
        ("not in any task", missing, "add them, or move their images away"),
    ):
        if wrong:
            raise UserError(
                f"{problem}: {abbreviated([*map(repr, wrong)], 10)}; {remedy}", option="tasks"
            )
    if not all(tasks):
        raise UserError("one of them is empty: every task needs at least one class", option="tasks")
    positions = {name: position for position, name in enumerate(names)}
    return tuple(tuple(positions[name] for name in task) for task in tasks)


def make_stream(
    name: str,
    dataset: Dataset,
    order: Order,
    *,
    moments: Moments | None = None,
    own_order: bool = False,
    **settings: Any,
) -> Stream:
    """Make a stream of a data set's classes in this order. Without `moments`, mean and deviation
    are those of the first task, because later ones are not known yet.

    With `own_order`, the order is part of the fingerprint, because the user chose it. `settings`
    are further values of the Stream.
    """
    tasks, label = [], 0
    for classes in order:
        labels = tuple(range(label, label + len(classes)))
        train, test = (_take(part, classes, labels) for part in (dataset.train, dataset.test))
        tasks.append(Task(labels, train, test))
        label += len(classes)
    mean, std = moments or channel_moments(tasks[0].train.x)
    fingerprint = dataset.fingerprint
    if own_order:
        fingerprint = hashlib.sha256(f"{fingerprint} {order}".encode()).hexdigest()[:16]
    class_names = tuple(dataset.class_names[k] for k in chain.from_iterable(order))
    settings["estimated"] = moments is None
    return Stream(name, tuple(tasks), class_names, mean, std, fingerprint, **settings)


def with_own_moments(stream: Stream) -> Stream:
    """Set mean and deviation to those of the first task, unless they are published."""
    if not stream.estimated:
        return stream
    mean, std = channel_moments(stream[0].train.x)
    return replace(stream, mean=mean, std=std)


def channel_moments(x: Tensor) -> Moments:
    """Compute mean and standard deviation per channel of uint8 images, as of pixels in [0, 1].
    Features have none."""
    if x.dtype != torch.uint8:
        return (), ()
    mean, std = [], []
    values = torch.arange(256, dtype=torch.float64) / 255
    for channel in x.unbind(1):
        parts = torch.split(channel, 1024)  # bincount makes copies
        counts = torch.stack([torch.bincount(part.flatten(), minlength=256) for part in parts])
        share = counts.sum(0).double() / channel.numel()
        centre = (share * values).sum()
        spread = (share * (values - centre) ** 2).sum().sqrt()
        mean.append(round(centre.item(), 6))
        std.append(round(spread.item(), 6) or 1.0)  # a channel of one colour is only shifted
    return tuple(mean), tuple(std)


def _take(part: Split, classes: Sequence[int], labels: Sequence[int]) -> Images:
    starts = [0, *accumulate(part.counts)]
    counts = [part.counts[k] for k in classes]
    y = torch.tensor(labels).repeat_interleave(torch.tensor(counts))
    pieces = [part.x.narrow(0, starts[k], n) for k, n in zip(classes, counts, strict=True)]
    return Images(in_one(pieces), y)


def in_one(pieces: Sequence[Tensor]) -> Tensor:
    """Concatenate: as a view if the pieces are adjacent in memory, so that workers share the
    decoded images, else as a copy."""
    first, rows = pieces[0], sum(map(len, pieces))
    storage = first.untyped_storage().data_ptr()
    ends = accumulate((piece.nbytes for piece in pieces), initial=first.data_ptr())
    if all(
        piece.untyped_storage().data_ptr() == storage
        and piece.is_contiguous()
        and piece.data_ptr() == end
        for piece, end in zip(pieces, ends, strict=False)
    ):
        return first.as_strided((rows, *first.shape[1:]), first.stride())
    return torch.cat(list(pieces))


def evenly_spread(count: int, number: int) -> list[int]:
    """Choose this number of positions below `count` at equal distances: files are often sorted."""
    return [(2 * k + 1) * count // (2 * number) for k in range(number)]
