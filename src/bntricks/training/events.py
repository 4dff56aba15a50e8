"""What happens while something is trained, as plain values: for progress bars, logs, and a function
of your own. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict

if TYPE_CHECKING:
    from bntricks.streams.files.progress import Report


class Event(TypedDict, total=False):
    """A dict with the kind of event and what belongs to it.

    `data` and `work` say how far work outside the steps is. `begin` and `end` are a run's first and
    last, `finished` comes when a sweep has its result, and `resumed` when it goes on from a
    checkpoint. `progress` comes twice a second and `epoch` when one is over; `evaluation` is that
    of an epoch, `task` that when a task is over. `warning` says what the reader should know.
    """

    event: Required[
        Literal["data", "begin", "resumed", "progress", "epoch", "work"]
        | Literal["evaluation", "task", "warning", "end", "finished"]
    ]
    run: int
    """In a sweep: the run's number, from 0."""
    text: str
    what: str
    done: int
    total: int | None
    config: dict[str, Any]
    path: str
    step: int
    """So many steps are over, of all tasks together, out of `steps`."""
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
    """The sink of a caller who wants none."""


def warning(sink: Sink) -> Callable[[str], None]:
    """Tells the sink something that its reader should know."""
    return lambda text: sink({"event": "warning", "text": text})


def reported(sink: Sink) -> Report:
    """Tells the sink how far work such as reading images is."""
    return lambda what, done, total: sink(
        {"event": "data", "what": what, "done": done, "total": total}
    )
