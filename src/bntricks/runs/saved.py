"""What a checkpoint of a run holds, checked before any of it is used: a file with the right
checksum may still have been made by somebody else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt
from torch import Generator, Tensor, nn, uint8

from bntricks.norm import phi
from bntricks.recipes.lesson import Lesson, next_lesson
from bntricks.runs.config import Config
from bntricks.runs.measurements import Confusion, EpochAccuracy
from bntricks.streams import Stream, Task

Count = Annotated[StrictInt, Field(ge=0)]
Percent = Annotated[float, Field(ge=0, le=100)]
Elapsed = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


class Measured(Part):
    accuracy: list[list[Percent | None]]
    within: list[list[Percent | None]]
    readings: dict[str, dict[str, list[list[Percent | None]]]] | None = None
    untrained: list[Percent | None] = Field(default_factory=list)
    just_before: list[Percent | None] = Field(default_factory=list)
    epochs: list[dict[str, Any]] = Field(default_factory=list)
    confusion: Confusion = Field(default_factory=dict)
    train_seconds: list[Elapsed]
    evaluate_seconds: list[Elapsed]


class Place(Part):
    lesson: Count
    epoch: Count
    batch: Count
    order: Tensor | None
    seconds: Elapsed
    phi: dict[str, dict[str, Tensor]]


class Learned(Part):
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


class Saved(Part):
    """Everything that a run goes on from."""

    learner: Learned
    measured: Measured
    place: Place
    step: Count


def checked(
    state: dict[str, Any],
    config: Config,
    stream: Stream,
    lessons: Sequence[Task],
    net: nn.Module,
) -> Saved:
    """The state, if it can be one of this run; else a ValueError."""
    saved = Saved.model_validate(state)
    place, learner = saved.place, saved.learner
    read = [matrix for own in (saved.measured.readings or {}).values() for matrix in own.values()]
    for matrix in (saved.measured.accuracy, saved.measured.within, *read):
        if [len(row) for row in matrix] != [len(stream)] * len(stream):
            raise ValueError("its accuracies are not of this stream")
    for row in (saved.measured.untrained, saved.measured.just_before):
        if len(row) not in (0, len(stream)):
            raise ValueError("its accuracies are not of this stream")
    for epoch in saved.measured.epochs:
        EpochAccuracy.model_validate(epoch)
    for times in (saved.measured.train_seconds, saved.measured.evaluate_seconds):
        if len(times) != place.lesson:
            raise ValueError("its times are not those of the tasks that are over")
    began = place.order is not None
    if place.lesson + began > len(lessons) or place.epoch > config.epochs:
        raise ValueError("its position is beyond the end of the run")
    if place.order is not None:
        Generator().set_state(place.order)  # raises if it is none
    lesson = _lesson(lessons[: place.lesson + began])
    if {"visitors": [], **learner.lesson} != _plain(lesson):
        raise ValueError("its classes are not those of its position")
    if _kinds(learner.net) != _kinds(net.state_dict()):
        raise ValueError("its weights are those of another network")
    own, theirs = ({k: _kinds(v) for k, v in each.items()} for each in (phi(net), place.phi))
    if began and own != theirs:
        raise ValueError("its running statistics are those of another network")
    outputs = len(stream.class_names)
    if learner.recorded is not None and learner.recorded.shape != (lesson.size, outputs):
        raise ValueError("its recorded outputs are those of another network")
    if any(_kinds(own) != _kinds(net.state_dict()) for own in learner.averages.values()):
        raise ValueError("its averages are those of another network")
    buffers = _kinds(dict(net.named_buffers()))
    if any(_kinds(own) != buffers for own in learner.twins.values()):
        raise ValueError("the running statistics of a reading are those of another network")
    _check_memory(learner.memory, stream, set(range(outputs)))
    return saved


def _lesson(begun: Sequence[Task]) -> Lesson:
    """What is being learned once these have begun."""
    lesson = Lesson()
    for task in begun:
        lesson = next_lesson(lesson, task.classes, len(task.train), task.visitors)
    return lesson


def _plain(lesson: Lesson) -> dict[str, Any]:
    values = asdict(lesson)
    return values | {key: list(values[key]) for key in ("new", "old", "visitors")}


def _kinds(tensors: dict[str, Tensor]) -> dict[str, Any]:
    return {name: (value.shape, value.dtype) for name, value in tensors.items()}


def _check_memory(memory: dict[str, Any] | None, stream: Stream, labels: set[int]) -> None:
    x, y = (None if memory is None else memory.get(name) for name in ("x", "y"))
    if isinstance(x, Tensor) and (x.shape[1:] != stream.shape or x.dtype != uint8):
        raise ValueError(f"its memory holds {list(x.shape)} of {x.dtype}, which are other images")
    if isinstance(y, Tensor) and not (y.dim() == 1 and set(y.tolist()) <= labels):
        raise ValueError("its memory holds labels of other classes")
