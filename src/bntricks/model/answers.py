"""Answers of a model: the likeliest classes with their probabilities, and "unknown" up to a
threshold, whose rate of false acceptance is measured on images of classes it never learned."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bntricks.errors import UserError
from bntricks.intervals import normal_quantile

if TYPE_CHECKING:
    from bntricks.model.model import Model

FALSE_ACCEPTANCE = 0.05
"""The share of unknown images that a threshold accepts, by default."""
FEWEST_KNOWN = 0.5
"""The share of known images that a useful threshold accepts, at least."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible class of a sample."""

    label: str
    probability: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The likeliest classes of one sample, the likeliest first."""

    label: str | None
    """None if its confidence is not above the threshold: the sample may be of no known class."""
    candidates: tuple[Candidate, ...]
    confidence: float
    """What a threshold is compared with: see `confidence`."""

    @property
    def probability(self) -> float:
        """The probability of the likeliest class, whether or not it is the answer."""
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
    """The shares of images that pass a threshold."""

    threshold: float
    unknown: Share | None
    """Of images of classes that the model never learned: the false ones. None if none are given."""
    known: Share | None
    """Of the model's own held-out images. None if it has none."""

    def check(self) -> None:
        """Refuse a useless threshold: one that refuses most known images, or accepts unknown ones
        as often as known ones."""
        if self.known is None:
            return
        problem = None
        if self.known.percent < 100 * FEWEST_KNOWN:
            problem = f"accepts {self.known} of the model's own held-out images"
        elif self.unknown is not None and self.unknown.percent >= self.known.percent:
            problem = (
                f"accepts {self.unknown} of the images of unknown classes and only {self.known} of "
                "the model's own"
            )
        if problem is not None:
            raise UserError(
                f"a threshold of {self.threshold:.6g} is useless: it {problem}; choose a lower one"
                + (", or accept more images of unknown classes" if self.unknown else "")
            )


def answer(
    model: Model, x: Any, *, top: int = 1, threshold: float | None = None
) -> tuple[Answer, ...]:
    """Return the `top` likeliest classes of each sample."""
    if top < 1:
        raise UserError("it must be at least 1", option="top", value=top)
    if threshold is not None:
        _check_share(threshold, "threshold")
    scores = model.scores(x)
    best = model.probabilities(scores).topk(min(top, len(model.classes)))
    rows = zip(best.indices.tolist(), best.values.double().tolist(), strict=True)
    return tuple(
        _answer([Candidate(model.classes[k], p) for k, p in zip(*row, strict=True)], own, threshold)
        for row, own in zip(rows, confidence(model, scores).tolist(), strict=True)
    )


def confidence(model: Model, scores: Tensor) -> Tensor:
    """Return the values that a threshold is compared with, from 0 to 1: the probability of the
    likeliest class or, on a frozen trunk, the share of the held-out images that choose whose
    highest score is no higher, so that a threshold of 0.05 refuses about 5% of images like
    those."""
    if model.frozen is None:
        return model.probabilities(scores).max(1).values.double()
    own = known_scores(model)
    highest = scores.max(1).values
    return torch.searchsorted(own, highest, right=True).double() / len(own)


def known_scores(model: Model) -> Tensor:
    """Return the highest score of each choosing image of a model on a frozen trunk, sorted."""
    if model.frozen is None or not len(model.frozen.highest):
        raise UserError("nothing was held out to measure a threshold on: leave it out")
    return model.frozen.highest


def acceptance(
    model: Model,
    unknown: Any = None,
    *,
    threshold: float | None = None,
    false_acceptance: float = FALSE_ACCEPTANCE,
) -> Acceptance:
    """Measure how many samples of unknown classes pass this threshold. Without one, the lowest that
    lets at most a share of them pass is chosen on every other sample, and measured on the rest."""
    others = None if unknown is None else confidence(model, model.scores(unknown))
    if threshold is not None:
        _check_share(threshold, "threshold")
    else:
        _check_share(false_acceptance, "false_acceptance")
        if others is None or len(others) < 2:
            raise UserError("a threshold is chosen on at least two images of unknown classes")
        threshold, others = _chosen(others[::2], false_acceptance), others[1::2]
    tests, known = model.confirming, None
    if tests is not None and len(tests):
        known = share(confidence(model, model.test_scores(tests.x)) > threshold)
    return Acceptance(threshold, None if others is None else share(others > threshold), known)


def share(passed: Tensor) -> Share:
    """Compute the share of true values, with Wilson's interval, which holds for few images too."""
    images = len(passed)
    if not images:
        raise UserError("there are no images to measure on: give some")
    p = float(passed.double().mean())
    a = normal_quantile() ** 2 / (2 * images)
    centre, half_width = p + a, sqrt(2 * a * p * (1 - p) + a * a)
    low, high = (centre - half_width) / (1 + 2 * a), (centre + half_width) / (1 + 2 * a)
    return Share(100 * p, 100 * max(0.0, low), 100 * min(1.0, high), images)


def _answer(candidates: list[Candidate], own: float, threshold: float | None) -> Answer:
    label = candidates[0].label if threshold is None or own > threshold else None
    return Answer(label, tuple(candidates), own)


def _chosen(confidence: Tensor, rate: float) -> float:
    """Return the lowest threshold that lets at most this rate pass: the largest probability
    refused."""
    ordered = confidence.sort(descending=True).values
    return float(ordered[min(int(rate * len(ordered)), len(ordered) - 1)])


def _check_share(value: float, option: str) -> None:
    if not 0 <= value <= 1:
        raise UserError("it is from 0 to 1", option=option, value=value)
