"""What a picture of a recipe shows: its passes, each with the batch that goes through the network,
the losses by which it moves θ, and whether it moves φ; then what else shapes the gradient, a
teacher or a projection. Read from the recipe alone, by the rules of `training/step.py`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from bntricks.recipes.language import Method, Source, Symbol, Term, Update

MEMORY = "M"
"""The name of all that is stored, which a projection may look at."""


@dataclass(frozen=True, slots=True)
class DrawnPass:
    """A forward through the network; the teacher's has no batch of its own and no φ of ours."""

    name: str
    source: Source | None
    losses: tuple[str, ...]
    theta: Literal["moves", "guides", "leaves"]
    phi: Literal["moves", "leaves", "none"]
    update: int = 0
    """The optimiser step it is part of, from 1; 0 if it is part of none, or of all."""


def passes(method: Method) -> list[DrawnPass]:
    """The passes of a step: those of the updates in their order, then tracking, then the aids."""
    return [*_training(method), *_tracking(method), *_aids(method)]


def notes(method: Method) -> list[str]:
    """What else there is to know: decay, work outside the steps, an unusual classifier."""
    classifier = str(method.classify)
    texts = [
        f"loss: + {method.decay:g}·‖θ‖²" if method.decay else "",
        "all tasks at once, after the last" if method.joint else "",
        f"before a task: {_words(method.prepare)}" if method.prepare else "",
        *(f"after a task: {_words(stage)}" for stage in method.stages),
        f"classifier: {classifier}" if classifier != "linear" else "",
    ]
    return [text for text in texts if text]


def in_words(title: str, method: Method) -> str:
    """The picture in words, for a screen reader."""
    row = method.columns()
    phi = "every forward" if method.ema is None else f"{method.ema} alone"
    text = f"{title}: θ is moved by {row['loss']}; φ is moved by {phi}; memory: {row['memory']}"
    if method.project is not None:
        text += f"; projection: {row['projection']}"
    if method.teacher is not None:
        text += f"; teacher: {method.teacher}"
    if method.averages:
        text += "; teacher: slow copies"
    return text


def _training(method: Method) -> Iterator[DrawnPass]:
    moved = False
    for number, update in enumerate(method.updates, start=1):
        order = f"{number}. " if len(method.updates) > 1 else ""
        for source, terms in _by_source(method, update).items():
            # φ moves once a step, however often its batch is trained on.
            moves = method.ema is None or (source == method.ema and not moved)
            moved = moved or moves
            loss = str if method.together else _loss
            losses = (order + loss(terms[0]), *map(loss, terms[1:]))
            order = ""
            phi: Literal["moves", "leaves"] = "moves" if moves else "leaves"
            yield DrawnPass("forward", source, losses, "moves", phi, number)


def _tracking(method: Method) -> Iterator[DrawnPass]:
    if method.tracks_apart:
        yield DrawnPass("forward", method.ema, ("no gradient",), "leaves", "moves")


def _aids(method: Method) -> Iterator[DrawnPass]:
    if method.project is not None:
        count = method.project.forwards
        name = "forward" if count == "1" else f"{count} forwards"
        phi: Literal["moves", "leaves"] = "moves" if method.ema is None else "leaves"
        yield DrawnPass(name, Symbol(MEMORY), (str(method.project),), "guides", phi)
    if method.teacher is not None:
        name = {"previous": "teacher: previous network", "recorded": "teacher: recorded outputs"}[
            method.teacher
        ]
        yield DrawnPass(name, None, ("targets",), "guides", "none")
    if method.averages:
        yield DrawnPass("teacher: slow copies", None, ("targets",), "guides", "none")


def _by_source(method: Method, update: Update) -> dict[Source, list[Term]]:
    if method.together:
        (whole,) = method.passes(update)
        return {whole: list(update.terms)}
    terms: dict[Source, list[Term]] = {}
    for term in update.terms:
        terms.setdefault(term.source, []).append(term)
    return terms


def _loss(term: Term) -> str:
    return str(term).removesuffix(f"({term.source})")


def _words(function: Callable[..., Any]) -> str:
    name: str = getattr(function, "__name__", str(function))
    return name.replace("_", " ").strip()
