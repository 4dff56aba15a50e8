"""The effect of a task on a model, measured on images that it neither trained on nor chose anything
by: accuracy by task and by class, the pairs it confuses, the loss, and concerns in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING

import torch

from bntricks.errors import abbreviated
from bntricks.intervals import mean_share
from bntricks.model.gate import FEW, LISTED, Gate, judge, words

if TYPE_CHECKING:
    from bntricks.model.model import Model
    from bntricks.model.phi import Decision
    from bntricks.streams import Images

MOST_CONFUSED = 5
"""Pairs that are listed, at most."""
CHANCE_DEVIATIONS = 2
"""An accuracy within so many standard deviations of guessing is no better than guessing."""
LOSS_ROSE = 1.5
"""The last epoch's mean loss over the lowest one's, from which on it has risen."""


@dataclass(frozen=True, slots=True)
class Score:
    """Accuracy in percent on the held-out images of some classes, before and after the task."""

    classes: tuple[str, ...]
    images: int
    before: float | None
    """None if the classes were new, or there was nothing to measure on."""
    after: float | None
    low: float | None = None
    """Of the 95% interval of the accuracy after the task."""
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Confusion:
    """Held-out images of one class that are taken for another."""

    label: str
    taken_for: str
    images: int
    percent: float
    """Of the held-out images of the class."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The effect of a task: a score for each task so far, this one last, and over all classes, with
    the same weight for each class."""

    tasks: tuple[Score, ...]
    all: Score
    images: int
    """Trained on."""
    unreadable: tuple[str, ...]
    """A line for each file that was left out."""
    classes: tuple[Score, ...] = ()
    """A score for each class."""
    confused: tuple[Confusion, ...] = ()
    """The most frequent mistakes, the most frequent one first."""
    losses: tuple[float, ...] = ()
    """The mean training loss of each epoch."""
    concerns: tuple[str, ...] = field(default=())
    """What went wrong, and what to do about it; nothing if all is well."""
    gate: Gate | None = None
    """Whether the model may take the place of the one before; None if that knew no class that can
    be measured."""
    head: str | None = None
    """On a frozen trunk: the head that serves."""
    heads: Mapping[str, float] = field(default_factory=dict)
    """The accuracy in percent of each head that was tried."""
    phi: Decision | None = None
    """Of a network that was trained: which running statistics serve. None if there was nothing to
    decide by."""
    tuning: Decision | None = None
    """Whether the frozen trunk serves, or the tuned one, and with which head."""


def answers(model: Model, images: Images | None) -> list[tuple[int, int]]:
    """Pair the label of each image with the class that the model takes it for."""
    if images is None or not len(images):
        return []
    predicted = model.test_scores(images.x).argmax(1)
    return list(zip(images.y.tolist(), predicted.tolist(), strict=True))


def right_answers(answered: Sequence[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Count right answers and images of each class that has any."""
    images = Counter(label for label, _ in answered)
    right = Counter(label for label, predicted in answered if label == predicted)
    return {label: (right[label], count) for label, count in sorted(images.items())}


def conclude(
    model: Model,
    before: Sequence[tuple[int, int]],
    images: int,
    *,
    held: int,
    data: str,
    steps: int = 0,
    lr: float | None = None,
    unreadable: tuple[str, ...] = (),
    losses: Sequence[float] = (),
) -> Learned:
    """Compare what the model answers now with what it answered before the lesson that it has just
    learned from so many `images`, and add the lesson to its history. `before` are the answers on
    the confirming images of the old classes, of which the first were `held` before the lesson."""
    metadata, lesson, tests = model.metadata, model.metadata.taught[-1], model.confirming
    old, gate = len(metadata.classes) - len(lesson.classes), None
    after: list[tuple[int, int]] = []
    if tests is not None and len(tests):
        scores = model.test_scores(tests.x)
        after = list(zip(tests.y.tolist(), scores.argmax(1).tolist(), strict=True))
        if held:  # images that the lesson brings may be as wrong as itself
            was = torch.tensor([predicted for _, predicted in before[:held]])
            among, now = scores[:held, :old].argmax(1), scores[:held].argmax(1)
            gate = judge(tests.y[:held], was, among, now, metadata.classes, old)
    learned = summarise(model, before, after, gate, images, unreadable=unreadable, losses=losses)
    model.note(
        "learned",
        **lesson.model_dump(include={"classes", "more", "images", "epochs"}),
        data=data,
        steps=steps,
        lr=lr,
        accuracy={metadata.classes[label]: n for label, n in right_answers(after).items()},
        old=None if gate is None else (gate.before, gate.after),
        note=(gate and gate.refused) or "",
    )
    return learned


def summarise(
    model: Model,
    before: Sequence[tuple[int, int]],
    after: Sequence[tuple[int, int]],
    gate: Gate | None,
    images: int,
    *,
    unreadable: tuple[str, ...],
    losses: Sequence[float],
) -> Learned:
    """Score tasks and classes by these answers, and say what is wrong."""
    by_time = (right_answers(before), right_answers(after))
    labels = {name: label for label, name in enumerate(model.classes)}

    def score(names: tuple[str, ...]) -> Score:
        was, now = (
            mean_share([counts.get(labels[name], (0, 0)) for name in names]) for counts in by_time
        )
        count = sum(by_time[1].get(labels[name], (0, 0))[1] for name in names)
        return Score(names, count, was and was[0], *(now or (None, None, None)))

    tasks, everything = tuple(map(score, model.groups)), score(model.classes)
    classes = tuple(score((name,)) for name in model.classes)
    lesson = model.metadata.taught[-1]
    just_learned = score((*lesson.classes, *lesson.more))
    measured = {"its classes": everything, "the classes just learned": just_learned}
    about_old = (
        None if gate is None else words(gate, model.learner.memory, trained=model.frozen is None)
    )
    guessed = [] if model.frozen is not None else _about_guessing(measured, classes)
    return Learned(
        tasks,
        everything,
        images,
        unreadable,
        classes=classes,
        confused=confusions(after, model.classes),
        losses=tuple(losses),
        concerns=(
            *_about_loss(losses),
            *(guessed or _about_evidence(measured, classes)),
            *([about_old] if about_old else []),
            *_about_unmeasured(classes),
        ),
        gate=gate,
    )


def confusions(
    answered: Sequence[tuple[int, int]], classes: tuple[str, ...]
) -> tuple[Confusion, ...]:
    """List the most frequent mistakes among the images of a class, the most frequent first."""
    images = Counter(label for label, _ in answered)
    mistakes = Counter(pair for pair in answered if pair[0] != pair[1])
    every = [
        Confusion(classes[label], classes[taken_for], count, 100 * count / images[label])
        for (label, taken_for), count in mistakes.most_common()
    ]
    return tuple(sorted(every, key=lambda each: -each.percent)[:MOST_CONFUSED])


def _about_loss(losses: Sequence[float]) -> list[str]:
    if len(losses) < 2 or losses[-1] < LOSS_ROSE * min(losses) + 0.05:
        return []
    lowest = min(range(len(losses)), key=losses.__getitem__)
    return [
        f"The training loss rose from {losses[lowest]:.2f} in epoch {lowest + 1} to "
        f"{losses[-1]:.2f} in the last one: learn again at a lower learning rate."
    ]


def _about_guessing(measured: Mapping[str, Score], classes: Sequence[Score]) -> list[str]:
    share = 100 / len(classes)
    for what, score in measured.items():
        luck = _luck(score, classes)
        if score.after is not None and score.after <= luck < 100:
            return [
                f"The model is right on {score.after:.1f}% of the {score.images} test images of "
                f"{what}. Guessing is right on {share:.1f}%, and with luck on {luck:.1f}%: do not "
                "use it. Check that the folders hold what their names say, then learn again for "
                "more epochs, at a lower learning rate, or from more images."
            ]
    return []


def _about_evidence(measured: Mapping[str, Score], classes: Sequence[Score]) -> list[str]:
    """Say for which classes a result better than guessing is not shown."""
    if len(classes) == 1:
        return ["The model knows one class, so that is its answer to any image: teach it another."]
    for what, score in measured.items():
        if score.after is not None and _luck(score, classes) >= 100:
            return [
                f"With {score.images} test image{'s' * (score.images != 1)} of {what}, "
                f"{score.after:.1f}% cannot be told from guessing: add images."
            ]
    share = 100 / len(classes)
    missed = [
        f"{score.classes[0]!r} ({score.after:.1f}%)"
        for score in classes
        if score.after is not None and score.images >= FEW and score.after <= share
    ]
    if not missed:
        return []
    return [
        f"Recognised no more often than by guessing ({share:.1f}%): "
        f"{abbreviated(missed, LISTED)}. Look at their images, and teach it more of them."
    ]


def _luck(score: Score, classes: Sequence[Score]) -> float:
    """Return the accuracy that guessing may reach with luck, given the number of images."""
    share, images = 1 / len(classes), {own.classes[0]: own.images for own in classes}
    if not all(images[name] for name in score.classes):
        return 100
    rows = [share * (1 - share) / images[name] for name in score.classes]
    return 100 * (share + CHANCE_DEVIATIONS * sqrt(sum(rows)) / len(rows))


def _about_unmeasured(classes: Sequence[Score]) -> list[str]:
    unmeasured = [repr(score.classes[0]) for score in classes if not score.images]
    if not unmeasured:
        return []
    return [f"Not measured: there are no test images of {abbreviated(unmeasured, LISTED)}."]
