"""Where a run is between two steps, and how it goes on from there as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from torch import Generator, Tensor

from bntricks.batch import shuffled
from bntricks.errors import UserError
from bntricks.runs.checkpoint import Checkpoints
from bntricks.training.progress import Watch

if TYPE_CHECKING:
    from bntricks.runs.train import Outcome


@dataclass
class Place:
    """So many lessons, epochs of the next one and batches of its next epoch are over."""

    lesson: int = 0
    epoch: int = 0
    batch: int = 0
    order: Tensor | None = None
    """The state of the order generator when this epoch began; None before the task did."""
    seconds: float = 0.0
    """Spent on this lesson."""
    phi: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    """φ as it was when the task began."""


def batches(place: Place, count: int, size: int, epochs: int, order: Generator) -> Iterator[Tensor]:
    """The batches of a task from this place on, over all its epochs; the place goes with them."""
    while place.epoch < epochs:
        if place.batch == 0:
            place.order = order.get_state()
        else:  # the same order again, from its middle on
            assert place.order is not None
            order.set_state(place.order)
        for ids in islice(shuffled(count, size, order), place.batch, None):
            place.batch += 1
            yield ids
        place.epoch, place.batch = place.epoch + 1, 0


class Keep(Protocol):
    """Keeps a place, now or when it is due."""

    def __call__(self, place: Place, *, now: bool) -> None: ...


def resume(checkpoints: Checkpoints | None, outcome: Outcome, watch: Watch) -> tuple[Place, Keep]:
    """The place to go on from, with everything as it was there, and how to keep later ones."""
    measured = [each.name for each in fields(outcome) if each.name != "learner"]
    method = outcome.learner.method
    # What such a task runs over cannot be made again once the memory has moved on.
    whole_tasks = method.mixes and method.memory is not None and method.memory.fills == "step"

    def keep(place: Place, *, now: bool) -> None:
        if checkpoints is None or not (now or checkpoints.due()):
            return
        if whole_tasks and place.order is not None:
            return
        watch.check()  # what is not finite is not worth going on from
        checkpoints.save(
            {
                "learner": outcome.learner.state_dict(),
                "measured": {name: getattr(outcome, name) for name in measured},
                "place": vars(place),
                "step": watch.done,
            }
        )

    saved = None if checkpoints is None else checkpoints.load()
    if saved is None:
        return Place(), keep
    try:
        outcome.learner.load_state_dict(saved["learner"])
        for name in measured:
            setattr(outcome, name, saved["measured"][name])
        place, watch.done = Place(**saved["place"]), saved["step"]
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(
            f"the checkpoint does not fit this run ({str(error).splitlines()[0]}): train anew "
            "with --force"
        ) from None
    watch.sink({"event": "resumed", "step": watch.done, "steps": watch.total})
    return place, keep
