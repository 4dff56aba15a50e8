"""What `bnt learn` prints of a lesson."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bntricks.cli import console
from bntricks.errors import abbreviated
from bntricks.files import shown

if TYPE_CHECKING:
    from bntricks.model.model import Model
    from bntricks.model.phi import Decision
    from bntricks.model.summary import Learned, Score

HEADS = {
    "lda": "shrunk LDA",
    "means": "nearest class mean",
    "linear": "a balanced linear layer",
    "trained": "the layer trained with the trunk",
}

MOST_ROWS = 20
"""Of tasks, and of classes, that the summary shows."""


def print_lesson(learned: Learned, model: Model, into: Path, without_memory: bool) -> None:
    """Print the summary of a lesson, whose result is in this file."""

    def listed(names: tuple[str, ...]) -> str:
        return abbreviated([shown(name) for name in names], 6)

    def cells(name: str, score: Score) -> list[object]:
        before, after = ("–" if v is None else f"{v:.1f}" for v in (score.before, score.after))
        interval = "" if score.low is None else f"{score.low:.0f} to {score.high:.0f}"
        return [name, score.images, before, after, interval]

    tasks = [
        cells(f"task {k + 1}: {listed(score.classes)}", score)
        for k, score in enumerate(learned.tasks)
    ]
    left_out = max(0, len(tasks) - MOST_ROWS)
    rows = tasks[left_out:]
    if len(tasks) > 1:
        rows.append(cells("all classes", learned.all))
    classes = [score for score in learned.classes if score.after is not None]
    if len(classes) > MOST_ROWS:
        classes = sorted(classes, key=lambda score: (score.after, score.classes))[:MOST_ROWS]
    rows += [cells(f"  {shown(score.classes[0])}", score) for score in classes]
    task = model.metadata.taught[-1]
    title = f"learned {listed((*task.classes, *task.more))} from {learned.images} images"
    header = ["accuracy %", "test images", "before", "after", "95% interval"]
    console.show(header, rows, title=title)
    if left_out or len(classes) < len(learned.classes):
        console.say(
            f"(of {len(tasks)} tasks the last, and of {len(learned.classes)} classes the worst; "
            "--json has all)"
        )
    if learned.confused:
        pairs = "; ".join(
            f"{shown(each.label)} for {shown(each.taken_for)} ({each.percent:.0f}%)"
            for each in learned.confused
        )
        console.say(f"\nmost often taken for another: {pairs}")
    if learned.losses:
        first, last = learned.losses[0], learned.losses[-1]
        console.say(f"\ntraining loss {first:.2f} in the first epoch, {last:.2f} in the last")
    if learned.head is not None:
        others = ", ".join(f"{HEADS[name]} {rate:.1f}" for name, rate in learned.heads.items())
        rates = f" (on held-out images: {others})" if others else ""
        console.say(f"\nwhat answers: {HEADS[learned.head]}{rates}")
    if learned.tuning is not None:
        console.say(f"\ntrunk: {_told(learned.tuning)}")
    if learned.phi is not None and learned.phi.chosen != "as trained":
        console.say(f"\nrunning statistics: {_told(learned.phi)}")
    for concern in learned.concerns:
        console.say(f"\nWARNING: {concern}")
    kept, memory = "", model.learner.memory
    if model.frozen is not None:
        images = "no image" if model.frozen.stored_images is None else "these images"
        kept = f", with the features of {len(model.frozen.stored)} images and {images}"
    elif memory is not None:
        kept = f", with a memory of {len(memory)} images"
    kept = "" if without_memory else kept
    console.say(f"\nwritten to {shown(into)}{kept}")


def _told(decision: Decision) -> str:
    rates = "; ".join(
        f"{name} {first:.1f} and {second:.1f}"
        for name, (first, second) in decision.accuracy.items()
    )
    return (
        f"{decision.chosen} (accuracy on the held-out images that choose, and on those that "
        f"confirm: {rates})"
    )
