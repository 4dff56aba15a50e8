"""What a model answers: the likeliest classes with their probabilities, and "unknown" up to a
threshold, whose rate of false acceptance is measured on images of classes it never learned."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

from torch import Tensor

from bntricks.errors import UserError
from bntricks.intervals import normal_quantile

if TYPE_CHECKING:
    from bntricks.model.model import Model

FALSE_ACCEPTANCE = 0.05
"""The share of unknown images that a threshold accepts, by default."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A class that a sample may be of."""

    label: str
    probability: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The likeliest classes of one sample, the likeliest first."""

    label: str | None
    """None if not even the likeliest class is above the threshold: the sample may be of none."""
    candidates: tuple[Candidate, ...]

    @property
    def probability(self) -> float:
        """Of the likeliest class, whether or not it is the answer."""
        return self.candidates[0].probability


@dataclass(frozen=True, slots=True)
class Share:
    """A share of images in per cent, with Wilson's 95% interval."""

    percent: float
    low: float
    high: float
    images: int

    def __str__(self) -> str:
        return f"{self.percent:.1f}% ({self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a threshold accepts."""

    threshold: float
    unknown: Share
    """Of images of classes that the model never learned: the false ones."""
    known: Share | None
    """Of the model's own held-out images. None if it has none."""


def answer(
    model: Model, x: Any, *, top: int = 1, threshold: float | None = None
) -> tuple[Answer, ...]:
    """The `top` likeliest classes of each sample."""
    if top < 1:
        raise UserError("it must be at least 1", option="top", value=top)
    if threshold is not None:
        _check_share(threshold, "threshold")
    best = model.predict_proba(x).topk(min(top, len(model.classes)))
    rows = zip(best.indices.tolist(), best.values.double().tolist(), strict=True)
    return tuple(
        _answer([Candidate(model.classes[k], p) for k, p in zip(*row, strict=True)], threshold)
        for row in rows
    )


def acceptance(
    model: Model,
    unknown: Any,
    *,
    threshold: float | None = None,
    false_acceptance: float = FALSE_ACCEPTANCE,
) -> Acceptance:
    """How many samples of classes that the model never learned pass this threshold. Without one,
    every other sample chooses the lowest that lets at most a share of them pass, and the rest of
    them measure it."""
    confidence = _confidence(model, unknown)
    if threshold is None:
        _check_share(false_acceptance, "false_acceptance")
        if len(confidence) < 2:
            raise UserError("a threshold is chosen on at least two images of unknown classes")
        threshold, confidence = _chosen(confidence[::2], false_acceptance), confidence[1::2]
    else:
        _check_share(threshold, "threshold")
    held_out = model.held_out
    known = None
    if held_out is not None and len(held_out):
        known = share(_confidence(model, held_out.x) > threshold)
    return Acceptance(threshold, share(confidence > threshold), known)


def share(passed: Tensor) -> Share:
    """Of these truths, with Wilson's interval, which holds for few images and for none too."""
    images = len(passed)
    if not images:
        raise UserError("there are no images to measure on: give some")
    p = float(passed.double().mean())
    a = normal_quantile() ** 2 / (2 * images)
    centre, half_width = p + a, sqrt(2 * a * p * (1 - p) + a * a)
    low, high = (centre - half_width) / (1 + 2 * a), (centre + half_width) / (1 + 2 * a)
    return Share(100 * p, 100 * max(0.0, low), 100 * min(1.0, high), images)


def _answer(candidates: list[Candidate], threshold: float | None) -> Answer:
    best = candidates[0]
    accepted = threshold is None or best.probability > threshold
    return Answer(best.label if accepted else None, tuple(candidates))


def _confidence(model: Model, x: Any) -> Tensor:
    return model.predict_proba(x).max(1).values.double()


def _chosen(confidence: Tensor, rate: float) -> float:
    """The lowest threshold that lets at most so many pass: the largest probability refused."""
    ordered = confidence.sort(descending=True).values
    return float(ordered[min(int(rate * len(ordered)), len(ordered) - 1)])


def _check_share(value: float, option: str) -> None:
    if not 0 <= value <= 1:
        raise UserError("it is from 0 to 1", option=option, value=value)
