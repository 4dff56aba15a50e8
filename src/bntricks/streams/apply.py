"""Apply the options of a run to a stream, whoever made it: which of its images are used, at which
size, which classes come together, and which images test them."""

import hashlib
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bntricks.errors import UserError
from bntricks.streams.files.dataset import resized, scaled_pad
from bntricks.streams.rearrange import check_choices, plain_choice, rearrange
from bntricks.streams.stream import Images, Stream, Task
from bntricks.streams.tasks import evenly_spread, with_own_moments

HELD_OUT = 0.2
REARRANGING = ("class_order", "first", "increment", "classes_per_task", "tasks", "blurry")


def apply_options(stream: Stream, **options: Any) -> Stream:
    """Apply those of these options of `open_stream` that the stream was not made with. Refuse a
    value that can no longer be applied to it."""
    defaults = {"held_out": HELD_OUT, "blurry": 0.0}
    wanted = {
        name: plain_choice(value) for name, value in options.items() if value != defaults.get(name)
    }
    new = {name: value for name, value in wanted.items() if stream.applied.get(name) != value}
    both = {**stream.applied, **wanted}
    check_choices(**{name: both[name] for name in REARRANGING if name in both})
    _check_in_time(stream, new)
    tested = sum(len(task.test) > 0 for task in stream)
    if not tested:
        both["held_out"] = share = options.get("held_out", HELD_OUT)
        stream = _tested_on_training(stream, "held_out", share, held_out_positions)
    elif "held_out" in new:
        raise UserError(
            f"{stream.name} has test images of its own: leave this out", option="held_out"
        )
    elif tested < len(stream):
        raise UserError(f"{stream.name} has test images for some of its tasks only: add the others")
    elif not new:
        return stream
    if "image_size" in new:
        stream = _resized(stream, new["image_size"])
    if "images_per_class" in new:
        stream = _cut_down(stream, new["images_per_class"])
    stream = rearrange(
        with_own_moments(stream), **{name: new[name] for name in REARRANGING if name in new}
    )
    if "validation" in new:
        stream = _tested_on_training(stream, "validation", new["validation"], validation_positions)
    return replace(stream, applied=both)


def held_out_positions(count: int, share: float) -> frozenset[int]:
    """Choose images for testing: evenly spread, at least one, never all."""
    return frozenset(evenly_spread(count, min(count - 1, max(1, round(count * share)))))


def validation_positions(count: int, share: float) -> list[int]:
    """The same rounded in float32, which for thousands of images can choose others."""
    number = min(count - 1, max(1, round(count * share)))
    positions: list[int] = ((torch.arange(number) + 0.5) * count / number).long().tolist()
    return positions


def _check_in_time(stream: Stream, new: dict[str, Any]) -> None:
    for name, value in new.items():
        if name in stream.applied:
            raise UserError(
                f"the stream was made with {stream.applied[name]!r}: choose that, or open the "
                "stream anew",
                option=name,
                value=value,
            )
        if "validation" in stream.applied or ("blurry" in stream.applied and name != "validation"):
            last = "validation" if "validation" in stream.applied else "blurry"
            raise UserError(
                f"the stream was made with {last}, which comes after this: open the stream with "
                "both",
                option=name,
                value=value,
            )


def _tested_on_training(
    stream: Stream,
    option: str,
    share: float,
    positions: Callable[[int, float], Collection[int]],
) -> Stream:
    """Move a share of each class's training images to the place of the test images. Which ones
    depends only on their order and the share, so all seeds are tested on the same images."""

    def divided(task: Task) -> Task:
        testing = torch.zeros(len(task.train), dtype=torch.bool)
        for label in sorted(set(task.train.y.tolist())):
            rows = (task.train.y == label).nonzero().flatten()
            if len(rows) < 2:
                raise UserError(
                    f"{stream.class_names[label]} has one training image, and a class needs "
                    "another one to be tested on: add images",
                    option=option,
                    value=share,
                )
            testing[rows[sorted(positions(len(rows), share))]] = True
        return Task(task.classes, _picked(task.train, ~testing), _picked(task.train, testing))

    text = f"{stream.fingerprint} {option} {share}"
    fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
    return replace(stream, tasks=tuple(map(divided, stream)), fingerprint=fingerprint)


def _resized(stream: Stream, size: int) -> Stream:
    """Resize all images to squares of this side."""
    if stream.shape[1:] == (size, size):
        return stream
    if len(stream.shape) != 3:
        raise UserError("its samples are not images: leave this out", option="image_size")
    tasks = tuple(
        Task(task.classes, *(Images(resized(p.x, size), p.y) for p in (task.train, task.test)))
        for task in stream
    )
    return replace(stream, tasks=tasks, pad=scaled_pad(stream.pad, stream.shape[2], size))


def _cut_down(stream: Stream, count: int) -> Stream:
    """Keep only the first training images of each class."""

    def first(images: Images) -> Images:
        kept = torch.zeros(len(images), dtype=torch.bool)
        for label in set(images.y.tolist()):
            kept[(images.y == label).nonzero().flatten()[:count]] = True
        return images if kept.all() else _picked(images, kept)

    return replace(stream, tasks=tuple(replace(task, train=first(task.train)) for task in stream))


def _picked(images: Images, mask: Tensor) -> Images:
    return Images(images.x[mask], images.y[mask])
