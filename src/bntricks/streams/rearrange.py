"""Another protocol for the images of a stream: its classes in another order, in tasks of other
sizes, or with blurry boundaries between the tasks. Test images stay with their class.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bntricks.errors import UserError
from bntricks.streams.stream import Images, Stream, Task
from bntricks.streams.tasks import (
    Order,
    choose_order,
    evenly_spread,
    in_blocks_of,
    in_one,
    with_own_moments,
)

ClassOrder = int | Sequence[str | int]
"""A seed, or every class, by its name or by its number in the stream as it is."""


def rearrange(
    stream: Stream,
    *,
    class_order: ClassOrder | None = None,
    first: int | None = None,
    increment: int | None = None,
    classes_per_task: int | None = None,
    tasks: Sequence[Sequence[str | int]] | None = None,
    blurry: float = 0.0,
) -> Stream:
    """Make another stream of the same images, with a fingerprint of its own.

    `class_order` is a seed, for the order `numpy.random.RandomState(seed).permutation` gives (that
    of iCaRL, PyCIL and others at their seed 1993), or a list of all classes. Tasks keep their
    sizes, unless `first` and `increment` say how many classes come first and in each later task,
    `classes_per_task` how many come in each, or `tasks` lists the classes of each. `blurry` is the
    share of each class's training images that other tasks get, the same number each.
    """
    check_choices(class_order, first, increment, classes_per_task, tasks, blurry)
    names = stream.class_names
    sizes = [len(task.classes) for task in stream]
    if tasks is not None:
        entries = [[str(entry) for entry in task] for task in tasks]
        order = choose_order(_listable(names, list(chain.from_iterable(entries))), None, entries)
    else:
        if classes_per_task is not None:
            sizes = [len(task) for task in in_blocks_of(len(names), classes_per_task)]
        elif first is not None and increment is not None:
            sizes = _growing(len(names), first, increment)
        order = _cut(_ordered(names, class_order), sizes)
    if blurry and len(order) == 1:
        raise UserError(
            "there is one task, so there are no others to share images with: make more tasks",
            option="blurry",
            value=blurry,
        )
    if order == _cut(range(len(names)), [len(task.classes) for task in stream]) and not blurry:
        return stream
    present = sum(len(task.classes) for task in stream)
    if present < len(names):
        raise UserError(
            f"these tasks have {present} of the stream's {len(names)} classes: rearrange the whole "
            "stream, and then take some of its tasks"
        )
    chosen: dict[str, Any] = {"class_order": class_order, "first": first, "increment": increment}
    chosen |= {"classes_per_task": classes_per_task, "tasks": tasks, "blurry": blurry or None}
    applied = dict(stream.applied)
    for name, value in chosen.items():
        if value is not None:
            plain = plain_choice(value)
            applied[name] = f"{applied[name]}, then {plain}" if name in applied else plain
    return replace(_rearranged(stream, order, blurry), applied=applied)


def check_choices(
    class_order: ClassOrder | None = None,
    first: int | None = None,
    increment: int | None = None,
    classes_per_task: int | None = None,
    tasks: Sequence[Sequence[str | int]] | None = None,
    blurry: float = 0.0,
) -> None:
    """Refuse choices that contradict each other, before any image is read."""
    if (first is None) != (increment is None):
        given, missing = ("first", "increment") if increment is None else ("increment", "first")
        raise UserError(
            "a large first task and the number of classes in each later one go together: give "
            "both, or classes_per_task for tasks of one size",
            option=given,
            remedy=missing,
        )
    if tasks is not None and class_order is not None:
        raise UserError(
            "both tasks and class_order are given, and each says in which order classes come: "
            "leave one of them out"
        )
    sizes = {"tasks": tasks, "classes_per_task": classes_per_task, "first": first}
    chosen = [name for name, value in sizes.items() if value is not None]
    if len(chosen) > 1:
        raise UserError(f"both {' and '.join(chosen)} are given: leave one of them out")
    for option, count in (("first", first), ("increment", increment)):
        if count is not None and count < 1:
            raise UserError("it must be at least 1", option=option, value=count)
    if not 0 <= blurry < 1:
        raise UserError(
            "the share of a class's images that other tasks get is at least 0 and below 1, such "
            "as 0.1",
            option="blurry",
            value=blurry,
        )


def plain_choice(value: Any) -> Any:
    """Make choices comparable: lists of classes become tuples of text."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return tuple(plain_choice(e) if isinstance(e, Sequence) else str(e) for e in value)


def _ordered(names: Sequence[str], chosen: ClassOrder | None) -> Sequence[int]:
    """Return the positions of all classes in the chosen order."""
    if chosen is None:
        return range(len(names))
    if isinstance(chosen, int):
        if not 0 <= chosen < 2**32:
            raise UserError(
                f"a seed is a number from 0 to {2**32 - 1}", option="class_order", value=chosen
            )
        # The draws of numpy's Generator may change with its version; these do not.
        return list(map(int, np.random.RandomState(chosen).permutation(len(names))))
    entries = [chosen] if isinstance(chosen, str) else [str(entry) for entry in chosen]
    listable = _listable(names, entries)
    problem = "some are listed twice"
    if unknown := [entry for entry in entries if entry not in listable]:
        problem = f"there is no class {unknown[0]!r}"
    elif missing := [name for name in listable if name not in entries]:
        problem = f"{missing[0]!r} is missing"
    elif len(entries) == len(names):
        return [listable.index(entry) for entry in entries]
    raise UserError(
        f"give a seed, or a list that has each of the {len(names)} classes once, by name or by "
        f"number from 0: {problem}",
        option="class_order",
    )


def _listable(names: Sequence[str], entries: Sequence[str]) -> list[str]:
    """Return what entries of a list may be: class names, or numbers if all entries are numbers
    and not all are names."""
    numbers = [str(position) for position in range(len(names))]
    if set(entries) <= set(names) and len(set(names)) == len(names):
        return list(names)
    return numbers if all(entry.isdecimal() for entry in entries) else list(names)


def _growing(classes: int, first: int, increment: int) -> list[int]:
    """Return the sizes of a first task and of later ones; the last has the remaining classes."""
    if first > classes:
        raise UserError(f"there are {classes} classes: choose fewer", option="first", value=first)
    rest = classes - first
    return [first, *(min(increment, rest - k) for k in range(0, rest, increment))]


def _cut(order: Sequence[int], sizes: Sequence[int]) -> Order:
    edges = pairwise(accumulate(sizes, initial=0))
    return tuple(tuple(order[start:end]) for start, end in edges)


def _rearranged(stream: Stream, order: Order, blurry: float) -> Stream:
    label = {old: new for new, old in enumerate(chain.from_iterable(order))}
    train = _by_class([task.train for task in stream], len(label))
    test = _by_class([task.test for task in stream], len(label))
    shares: list[list[tuple[int, Tensor]]] = [[] for _ in order]
    for home, classes in enumerate(order):
        for old in classes:
            stays, leaves = _parted(train[old], blurry)
            shares[home].append((label[old], stays))
            others = [*range(home + 1, len(order)), *range(home)]
            for turn, other in enumerate(others):
                if len(part := leaves[turn :: len(others)]):
                    shares[other].append((label[old], part))
    tasks = tuple(
        Task(
            tuple(label[old] for old in classes),
            _together(share),
            _together([(label[old], test[old]) for old in classes]),
        )
        for classes, share in zip(order, shares, strict=True)
    )
    choice = f"{stream.fingerprint} {order} {blurry}"
    new = replace(
        stream,
        tasks=tasks,
        class_names=tuple(stream.class_names[old] for old in label),
        fingerprint=hashlib.sha256(choice.encode()).hexdigest()[:16],
    )
    return with_own_moments(new)


def _by_class(parts: Sequence[Images], classes: int) -> list[Tensor]:
    """Return the images of each class, as a view where they are adjacent."""
    images: list[list[Tensor]] = [[] for _ in range(classes)]
    for part in parts:
        for label in set(part.y.tolist()):
            rows = (part.y == label).nonzero()[:, 0]
            start, count = int(rows[0]), len(rows)
            together = int(rows[-1]) - start == count - 1
            images[label].append(part.x.narrow(0, start, count) if together else part.x[rows])
    return [in_one(pieces or [parts[0].x[:0]]) for pieces in images]


def _parted(x: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Part a class into images that stay in its task, at least one, and a share that leaves it,
    evenly spread."""
    count = min(round(share * len(x)), len(x) - 1)
    if not count:
        return x, x[:0]
    leaves = torch.zeros(len(x), dtype=torch.bool)
    leaves[evenly_spread(len(x), count)] = True
    return x[~leaves], x[leaves]


def _together(pieces: Sequence[tuple[int, Tensor]]) -> Images:
    labels = torch.tensor([label for label, _ in pieces])
    counts = torch.tensor([len(x) for _, x in pieces])
    return Images(in_one([x for _, x in pieces]), labels.repeat_interleave(counts))
