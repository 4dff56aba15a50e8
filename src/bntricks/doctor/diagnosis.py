"""What the doctor found, as values: plain numbers and words that go into JSON as they are.

Accuracies and differences are in per cent and points. Shares are between 0 and 1.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bntricks.doctor.groups import Group

Where = Literal["old", "all", "none"]
AS_IS = "as it is"
BALANCED = "balanced"


@dataclass(frozen=True, slots=True)
class Layer:
    """How far a layer's φ is from the population, and whom it follows.

    Distances are over channels, in units of the population's standard deviation.
    """

    name: str
    kind: str
    channels: int
    shift: float
    """Root mean square of the standardised difference of means."""
    log_ratio: float
    """Root mean square of the logarithm of the ratio of variances."""
    kl: float
    """Symmetric Kullback-Leibler divergence of the two normal distributions, mean."""
    separation: float
    """How far the newest group's own moments are from those of the others."""
    unexplained: float
    """How far φ is from every mixture of the groups' moments."""
    shares: dict[str, float] | None
    """The part of each group in φ; None where it cannot be told."""

    @property
    def distance(self) -> float:
        """√(2·KL): equal variances whose means are d standard deviations apart have distance d."""
        return math.sqrt(2 * self.kl)


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of two accuracies on the same samples, with its 95% interval."""

    points: float
    low: float
    high: float

    @property
    def sign(self) -> Literal[-1, 0, 1]:
        """0 if the interval includes 0: the difference cannot be told from none."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The same weights with one set of statistics: how right they are, and what they answer.

    `old`, `newest` and `all` count every class the same. Differences are against φ as it is.
    """

    statistics: str
    accuracy: dict[str, float]
    old: float
    newest: float
    all: float
    old_difference: Difference
    newest_difference: Difference
    all_difference: Difference
    answers: tuple[tuple[int, ...], ...] | None
    """For each group how many of its samples are given a class of each group, and of none. None
    if groups share classes."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The finding in a sentence, what it rests on, and what to do."""

    cost: Where
    """Where φ measurably costs accuracy."""
    headline: str
    evidence: tuple[str, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything the doctor found; `print` shows the verdict."""

    groups: tuple[Group, ...]
    layers: tuple[Layer, ...]
    """In the order in which an input meets them."""
    counterfactuals: tuple[Counterfactual, ...]
    """φ as it is, balanced, and of each group only, the newest last."""
    verdict: Verdict
    notes: tuple[str, ...]

    @property
    def as_is(self) -> Counterfactual:
        return self.counterfactuals[0]

    @property
    def balanced(self) -> Counterfactual:
        return self.counterfactuals[1]

    def __str__(self) -> str:
        points = (*self.verdict.evidence, *self.notes)
        return "\n".join([self.verdict.headline, *(f"- {point}" for point in points)]) + (
            f"\n{self.verdict.advice}"
        )

    def to_json(self) -> str:
        """One object on one line, without NaN."""
        found = asdict(self)
        for row, layer in zip(found["layers"], self.layers, strict=True):
            row["distance"] = layer.distance
        return json.dumps(found, allow_nan=False)

    def write_page(
        self, path: Path | str, title: str = "BatchNorm diagnosis", command: str | None = None
    ) -> Path:
        """Write one HTML file with the verdict, charts by depth and all numbers."""
        from bntricks.doctor.page import write_page

        return write_page(self, Path(path), title, command)
