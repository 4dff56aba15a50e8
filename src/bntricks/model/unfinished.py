"""A lesson under way, kept beside the model, so that the same command continues it to the same
bits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from bntricks.files import shown
from bntricks.model.file import contents, lesson_file
from bntricks.model.history import checksum
from bntricks.model.model import Model
from bntricks.model.samples import ClassSamples
from bntricks.networks.head import last_linear
from bntricks.recipes.lesson import Lesson
from bntricks.training.checkpoint import Checkpoints, versions
from bntricks.training.events import Sink, warning
from bntricks.training.learner import Learner
from bntricks.training.loop import Position, Save
from bntricks.training.progress import Progress
from bntricks.training.saved import Count, Saved, SavedPart, fitting

Keep = Callable[[dict[str, str]], Checkpoints]
"""Makes the checkpoints of a lesson that depends on these values."""


class Losses(SavedPart):
    """The losses of a `Progress`."""

    epochs: list[float]
    sum: float | None
    summed: Count


class SavedLesson(Saved):
    """The state that a lesson goes on from."""

    step: Count = Field(gt=0)
    losses: Losses
    random: Tensor
    """State of the global generator, from which an adopted network may draw."""


def checkpoints(path: Path, *, seconds: float, sink: Sink) -> Keep:
    """Keep a lesson in this file beside the model, at these intervals. One that depends on other
    values is discarded."""
    file = lesson_file(path)

    def keep(made_with: dict[str, str]) -> Checkpoints:
        return Checkpoints(
            file.parent,
            made_with,
            names=(file.name,),
            discards=True,
            seconds=seconds,
            warn=warning(sink),
        )

    return keep


def decides_bits(model: Model, samples: ClassSamples, epochs: int, lr: float) -> dict[str, str]:
    """Return all that the bits of a lesson depend on, except the machine."""
    description, tensors = contents(model)
    del description["history"]
    for task in description["taught"]:
        del task["date"]  # a network may have been adopted today
    return {
        "model": checksum(description, tensors),
        "images": samples.digest,
        "epochs": str(epochs),
        "lr": str(lr),
        "device": str(model.learner.device),
        "threads": str(torch.get_num_threads()),
        **versions(),
    }


def restored(
    kept: Checkpoints, learner: Learner, lesson: Lesson, samples: Tensor, epochs: int
) -> SavedLesson | None:
    """Restore the state this lesson goes on from; None if it has to begin."""
    state = kept.load()
    if state is None:
        return None
    with fitting("lesson", f"remove {shown(kept.files[0])}, and repeat the command"):
        saved = SavedLesson.model_validate(state)
        outputs = last_linear(learner.net).out_features
        saved.check(learner.net, lesson, epochs=epochs, outputs=outputs, samples=samples)
        if saved.place.lesson or saved.place.order is None:
            raise ValueError("its position is not in a lesson")
        learner.load_state_dict(dict(saved.learner))
        torch.set_rng_state(saved.random)
    return saved


def saving(kept: Checkpoints, learner: Learner, progress: Progress) -> Save:
    """Save the lesson at a position. A failure to save is a warning, and the lesson goes on."""

    def save(position: Position, now: bool) -> None:
        if not (now or kept.due()) or learner.method.runs_over_a_moving_memory:
            return
        progress.check()  # what is not finite is not worth going on from
        state: dict[str, Any] = {
            "learner": learner.state_dict(),
            "place": vars(position),
            "step": progress.done,
            "losses": progress.state_dict(),
            "random": torch.get_rng_state(),
        }
        try:
            kept.save(state)
        except OSError as error:
            reason = error.strerror or error
            warning(progress.sink)(f"cannot keep the lesson so far ({reason}): make room")

    return save
