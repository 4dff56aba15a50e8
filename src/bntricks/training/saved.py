"""The content of a checkpoint, checked before use: anybody may have made the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError
from torch import Generator, Size, Tensor, nn

from bntricks.errors import UserError, first_mistake
from bntricks.files import shown
from bntricks.recipes.lesson import Lesson

Count = Annotated[StrictInt, Field(ge=0)]
Elapsed = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SavedPart(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


class SavedPosition(SavedPart):
    """A saved `Position`."""

    lesson: Count
    epoch: Count
    batch: Count
    order: Tensor | None
    seconds: Elapsed
    phi: dict[str, dict[str, Tensor]]


class SavedLearner(SavedPart):
    """A learner as saved by `snapshot`."""

    net: dict[str, Tensor]
    optimiser: dict[str, Any] = Field(default_factory=dict)
    memory: dict[str, Any] | None
    generators: dict[str, Tensor]
    lesson: dict[str, Any]
    teacher: dict[str, Tensor] | None
    recorded: Tensor | None
    fitted: dict[str, Tensor] = Field(default_factory=dict)
    readings: dict[str, dict[str, Tensor]] = Field(default_factory=dict)
    twins: dict[str, dict[str, Tensor]] = Field(default_factory=dict)
    averages: dict[str, dict[str, Tensor]] = Field(default_factory=dict)
    trained_on: Tensor | None = None
    cost: dict[str, Count]
    since_skip: Count | None
    randomness: dict[str, Count] = Field(default_factory=lambda: {"task": 0, "step": 0})


class Saved(SavedPart):
    """The state that any training goes on from."""

    learner: SavedLearner
    place: SavedPosition
    step: Count

    def check(
        self, net: nn.Module, lesson: Lesson, *, epochs: int, outputs: int, samples: Tensor
    ) -> None:
        """Raise a ValueError unless it fits this network, lesson and samples."""
        place, learner = self.place, self.learner
        if place.epoch > epochs:
            raise ValueError("its position is beyond the end")
        if place.order is not None:
            Generator().set_state(place.order)  # raises if it is none
        if {"visitors": [], **learner.lesson} != _plain(lesson):
            raise ValueError("its classes are not those of its position")
        for weights in (learner.net, *learner.averages.values()):
            if kinds(weights) != kinds(net.state_dict()):
                raise ValueError("its weights are those of another network")
        if learner.recorded is not None and learner.recorded.shape != (lesson.size, outputs):
            raise ValueError("its recorded outputs are those of another network")
        buffers = kinds(dict(net.named_buffers()))
        if any(kinds(own) != buffers for own in learner.twins.values()):
            raise ValueError("the running statistics of a reading are those of another network")
        _check_memory(learner.memory, samples, set(range(outputs)))


@contextmanager
def fitting(what: str, remedy: str, *, option: str | None = None) -> Iterator[None]:
    """Turn any failure to check or load a state into a one-line error."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, ValidationError):
            reason = first_mistake(error)
        else:
            reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(
            f"the checkpoint does not fit this {what} ({shown(reason)}): {remedy}", remedy=option
        ) from None


def kinds(tensors: dict[str, Tensor]) -> dict[str, tuple[Size, Any]]:
    """Return shape and type of each tensor."""
    return {name: (value.shape, value.dtype) for name, value in tensors.items()}


def _plain(lesson: Lesson) -> dict[str, Any]:
    values = asdict(lesson)
    return values | {key: list(values[key]) for key in ("new", "old", "visitors")}


def _check_memory(memory: dict[str, Any] | None, samples: Tensor, labels: set[int]) -> None:
    x, y = (None if memory is None else memory.get(name) for name in ("x", "y"))
    if isinstance(x, Tensor) and kinds({"": x[:0]}) != kinds({"": samples[:0]}):
        raise ValueError(f"its memory holds {list(x.shape)} of {x.dtype}, which are other images")
    if isinstance(y, Tensor) and not (y.dim() == 1 and set(y.tolist()) <= labels):
        raise ValueError("its memory holds labels of other classes")
