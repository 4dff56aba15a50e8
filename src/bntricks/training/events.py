"""Events of a training as plain values, for progress bars, logs and your own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict

if TYPE_CHECKING:
    from bntricks.streams.files.progress import OnProgress


class Event(TypedDict, total=False):
    """A dict with the kind of event and its values.

    `begin` and `end` are a run's first and last event; `resumed` comes when it goes on from a
    checkpoint. In a sweep, `held` comes when another process trains the run, `finished` when there
    is a result. `progress` comes twice a second, `epoch` when one is over. `evaluation` has the
    accuracies after an epoch, `task` those after a task. `data` and `work` are progress of work
    outside the steps, `warning` is for the reader.
    """

    event: Required[
        Literal["data", "begin", "resumed", "progress", "epoch", "work"]
        | Literal["evaluation", "task", "warning", "end", "held", "finished"]
    ]
    run: int
    """In a sweep: the run's number, from 0."""
    text: str
    what: str
    done: int
    total: int | None
    config: dict[str, Any]
    path: str
    process: str
    """Where the run is trained: machine, process and device."""
    time: float
    """In seconds since 1970."""
    step: int
    """The number of steps that are over, of all tasks together, out of `steps`."""
    steps: int
    loss: float | None
    task: int
    """Its number, from 1, out of `of`."""
    of: int
    epoch: int
    """Its number, from 1, out of `epochs`."""
    epochs: int
    accuracy: list[float] | list[float | None]
    """On each task so far, in percent."""
    phi_drift: dict[str, float]
    """How far φ has moved in each layer since the task began."""
    acc: float
    bwt: float | None
    already_there: bool


Sink = Callable[[Event], None]


def silent(event: Event) -> None:
    """Ignore an event."""


def warning(sink: Sink) -> Callable[[str], None]:
    """Make a function that sends a text to the sink as a warning."""
    return lambda text: sink({"event": "warning", "text": text})


def reported(sink: Sink) -> OnProgress:
    """Make a function that sends the progress of other work to the sink."""
    return lambda what, done, total: sink(
        {"event": "data", "what": what, "done": done, "total": total}
    )
