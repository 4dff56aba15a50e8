"""Streams, which are ordinary sequences of tasks, each with its own classes and images.

A label is the column of the classifier that stands for its class. A task carries its own class
list, so tasks may be unequal and classes may come in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Images:
    """Labelled samples: x is uint8 [N, C, H, W], or float32 [N, ...] if they are features, which
    are network inputs as they are; y is int64 [N] on the host."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Images({len(self)} of {_size(self.x.shape[1:])})"


@dataclass(frozen=True, slots=True)
class Task:
    """The classes that arrive together, with their training and test images."""

    classes: tuple[int, ...]
    train: Images
    test: Images

    @property
    def visitors(self) -> tuple[int, ...]:
        """Classes of other tasks that also have training images here (blurry boundaries)."""
        return tuple(sorted(set(self.train.y.tolist()) - set(self.classes)))


@dataclass(frozen=True, slots=True)
class Stream(Sequence[Task]):
    """Tasks in the order they arrive, and properties of all their images."""

    name: str
    tasks: tuple[Task, ...]
    class_names: tuple[str, ...]
    """Name of each label; its length is the number of outputs of the classifier."""
    mean: tuple[float, ...]
    """Per channel, for pixels in [0, 1]; features have none."""
    std: tuple[float, ...]
    fingerprint: str
    """A hash of the decoded images and labels, wherever they are stored."""
    pad: int = 0
    """Random crop after this much black padding."""
    flip: bool = False
    """Random horizontal flip."""
    memory: int = 500
    """The default capacity of the memory, the paper's where it names one."""
    official: tuple[int, int] | None = None
    """Training and test images of the full data set, where there is one."""
    estimated: bool = False
    """Mean and deviation are those of the first task's training images."""
    applied: Mapping[str, Any] = field(default_factory=dict)
    """Options of `open_stream` that it was made with; they are not applied a second time."""

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Stream: ...
    def __getitem__(self, index: int | slice) -> Task | Stream:
        if isinstance(index, slice):
            return replace(self, tasks=self.tasks[index])
        return self.tasks[index]

    def __len__(self) -> int:
        return len(self.tasks)

    def __repr__(self) -> str:
        size = f"{_size(self.shape)}, " if self.tasks else ""
        return (
            f"Stream({self.name!r}: {len(self)} tasks, {len(self.class_names)} classes, "
            f"{size}{' + '.join(map(str, self.counts))} images)"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a sample: channels, height and width of an image."""
        return tuple(self.tasks[0].train.x.shape[1:])

    @property
    def has_images(self) -> bool:
        """Whether its samples are images, rather than features."""
        return self.tasks[0].train.x.dtype == torch.uint8

    @property
    def counts(self) -> tuple[int, int]:
        """How many training and test images it holds."""
        return sum(len(t.train) for t in self.tasks), sum(len(t.test) for t in self.tasks)

    @property
    def cut_down(self) -> bool:
        """Whether it lacks images of the official data set, so its numbers are not the paper's."""
        return self.official is not None and self.counts != self.official


def _size(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))
