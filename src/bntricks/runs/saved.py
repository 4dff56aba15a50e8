"""The content of a run's checkpoint: its learner, its position and its results so far."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field
from torch import nn

from bntricks.norm import phi
from bntricks.recipes.lesson import Lesson, next_lesson
from bntricks.runs.config import Config
from bntricks.runs.record.measurements import Confusion, EpochAccuracy
from bntricks.streams import Stream, Task
from bntricks.training.saved import Elapsed, Saved, SavedPart, kinds

Percent = Annotated[float, Field(ge=0, le=100)]


class Measured(SavedPart):
    accuracy: list[list[Percent | None]]
    within: list[list[Percent | None]]
    readings: dict[str, dict[str, list[list[Percent | None]]]] | None = None
    untrained: list[Percent | None] = Field(default_factory=list)
    just_before: list[Percent | None] = Field(default_factory=list)
    epochs: list[dict[str, Any]] = Field(default_factory=list)
    confusion: Confusion = Field(default_factory=dict)
    train_seconds: list[Elapsed]
    evaluate_seconds: list[Elapsed]


class SavedRun(Saved):
    """Everything that a run continues from."""

    measured: Measured


def checked(
    state: dict[str, Any],
    config: Config,
    stream: Stream,
    lessons: Sequence[Task],
    net: nn.Module,
) -> SavedRun:
    """Validate the state as one of this run, or raise a ValueError."""
    saved = SavedRun.model_validate(state)
    place = saved.place
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
    if place.lesson + began > len(lessons):
        raise ValueError("its position is beyond the end of the run")
    saved.check(
        net,
        _lesson(lessons[: place.lesson + began]),
        epochs=config.epochs,
        outputs=len(stream.class_names),
        samples=lessons[0].train.x,
    )
    own, theirs = ({k: kinds(v) for k, v in each.items()} for each in (phi(net), place.phi))
    if began and own != theirs:
        raise ValueError("its running statistics are those of another network")
    return saved


def _lesson(begun: Sequence[Task]) -> Lesson:
    """Return the lesson after these tasks have begun."""
    lesson = Lesson()
    for task in begun:
        lesson = next_lesson(lesson, task.classes, len(task.train), task.visitors)
    return lesson
