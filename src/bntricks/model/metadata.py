"""What a model file says about itself: how the network was made, what it has learned, and when.

Plain values, checked and bounded when they are read: a file may come from anybody. It says nothing
of the machine it was made on but the versions.
"""

from itertools import chain
from math import prod
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from bntricks.model.history import Day, HistoryEntry, Name, Versions
from bntricks.model.options import (
    Batch,
    Blocks,
    Count,
    Finite,
    Positive,
    Samples,
    Stages,
    Width,
)
from bntricks.options import Interpolation, Options
from bntricks.streams import View
from bntricks.streams.files.image import Square

FORMAT: Literal[3] = 3
"""Of the files that are written. Those of 1, without checksum, and 2 are still read."""

MOST_VALUES = 100_000_000
"""Of one sample: more is not an image."""


class Network(Options):
    """The shape of a ResNet of `networks/resnet.py`."""

    channels: Annotated[int, Field(ge=1, le=1024)] = 3
    width: Width
    blocks: Blocks
    stages: Stages
    stem: Literal["cifar", "imagenet"] = "cifar"


class Preprocessing(Options):
    """The conversion of photographs to inputs, as plain values: how they become squares, and
    `View`."""

    mean: tuple[Finite, ...]
    std: tuple[Positive, ...]
    pad: Annotated[int, Field(ge=0, le=512)] = 0
    flip: bool = False
    crop: Annotated[float, Field(gt=0.1, le=1)] = 1.0
    interpolation: Interpolation = "area"

    def applied(self) -> View:
        """Return the part that is applied to squares."""
        return View(self.mean, self.std, self.pad, self.flip)


class Pretrained(Options):
    """The pretrained network that a model began with, and the head on its frozen trunk."""

    name: Name
    """In the registry of `networks/backbones`, never a place of code."""
    licence: str
    head: Literal["lda", "means", "linear", "trained"] | None = None
    """None before the first lesson; trained together with the trunk, it is the network's own."""
    keep_images: bool = False
    """The images of stored features are in the file, and held-out ones, so that the trunk can be
    tuned."""
    tuned: bool = False


class LearnedTask(Options):
    """One task: its classes, its number of images, and its time (UTC)."""

    classes: tuple[Name, ...]
    images: Annotated[int, Field(ge=0)]
    epochs: Annotated[int, Field(ge=0)]
    """0 for classes that an adopted network knew before."""
    date: Day
    more: tuple[Name, ...] = ()
    """Classes that were known already, of which there were more images."""


class Metadata(Options):
    """Everything in a model file except the tensors."""

    format: Literal[1, 2, 3] = FORMAT
    versions: Versions
    method: str
    hyper: dict[str, Finite]
    lr: Positive
    optimiser: Name = "sgd"
    schedule: Name = "constant"
    even_batches: bool = True
    """These three as in files from before they had a name, but for a last batch of a few images,
    which did harm."""
    batch: Batch
    memory_batch: Samples
    memory: Samples
    tasks: Count | None = None
    """How many tasks there will be, where the method must know."""
    seed: Annotated[int, Field(ge=0)]
    network: Network | None
    """None if the network was adopted, in which case its code is its owner's, or pretrained."""
    backbone: Pretrained | None = None
    shape: Annotated[tuple[Count, ...], Field(min_length=1)]
    """Of a raw sample; of an image: channels, height, width."""
    view: Preprocessing | None
    """None if samples are network inputs as they are."""
    taught: tuple[LearnedTask, ...] = ()
    history: tuple[HistoryEntry, ...] = ()
    """All its changes, oldest first."""
    temperature: Positive = 1.0
    """Scores are divided by it to become probabilities, which it makes fit held-out images."""
    offered: Annotated[int, Field(ge=0)] = 0
    """Samples the memory has been offered."""
    with_memory: bool = True
    """The memory and the held-out images are in the file, so that it can learn more."""

    @model_validator(mode="before")
    @classmethod
    def _with_history(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Make a history for what was taught before there was one."""
        taught, versions = values.get("taught") or (), values.get("versions")
        if values.get("history") or not isinstance(taught, list | tuple):
            return values
        tasks = map(LearnedTask.model_validate, taught)
        own = [
            HistoryEntry.of(
                **task.model_dump(),
                event="learned" if task.epochs else "adopted",
                versions=versions,
            )
            for task in tasks
        ]
        return {**values, "history": own}

    @model_validator(mode="after")
    def _images_fit(self) -> Self:
        """Check that images and the network's inputs have the same channels."""
        if prod(self.shape) > MOST_VALUES:
            raise ValueError(f"samples of {list(self.shape)} are too large")
        if self.network is not None and self.shape[0] != self.network.channels:
            raise ValueError(f"samples of {list(self.shape)} do not fit the network")
        if self.view is not None:
            given = {len(self.view.mean), len(self.view.std)}
            if len(self.shape) != 3 or not given <= {1, self.shape[0]}:
                raise ValueError(f"samples of {list(self.shape)} do not fit the view")
        return self

    def amended(self, **values: Any) -> Self:
        """Return this with other values of the last entry of its history."""
        last = self.history[-1].model_copy(update=values)
        return self.model_copy(update={"history": (*self.history[:-1], last)})

    @property
    def square(self) -> Square:
        """Return the conversion of a photograph to a sample."""
        size, grey = self.shape[-1], len(self.shape) == 3 and self.shape[0] == 1
        if self.view is None:
            return Square(size, grey=grey)
        return Square(size, self.view.crop, self.view.interpolation, grey)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The classes by the task they came with; tasks that brought no new ones, or whose classes
        were all removed, are left out."""
        return tuple(task.classes for task in self.taught if task.classes)

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(chain.from_iterable(self.groups))
