"""φ against the population, layer by layer: its distance, and whose moments it follows.

All moments are measured as in training, each batch normalised by its own statistics. So a fault in
one layer's φ shows in that layer alone, whatever its effect on later ones in use.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bntricks.norm import Moments, NormLayer, Statistics, layers, moments

Vector = NDArray[np.float64]

CERTAIN = 2.0
"""Groups differ if their moments are more than this many standard errors apart."""
PARTS = 10
"""The most parts of a group whose moments are compared."""
NO_DIRECTION = 0.05
"""Directions in which the corners extend less than this share of their most are ignored."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The distance of a layer's φ from the population, and whom it follows.

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
    """The distance of the newest group's own moments from those of the others."""
    unexplained: float
    """The distance of φ from every mixture of the groups' moments."""
    shares: dict[str, float] | None
    """The share of each group in φ; None if it cannot be determined."""
    newest_margin: float | None = None
    """Half of the 95% interval of the newest group's share, by errors of the groups' moments."""

    @property
    def distance(self) -> float:
        """√(2·KL): equal variances whose means are d standard deviations apart have distance d."""
        return math.sqrt(2 * self.kl)


@dataclass(frozen=True, slots=True)
class GroupMoments:
    """The moments of a group, which φ would have had it followed this group only; and those of
    parts of the group, whose differences show how certain they are."""

    whole: Statistics
    parts: tuple[Statistics, ...]


def group_moments(net: nn.Module, batches: Iterable[Tensor]) -> GroupMoments:
    parts: list[Statistics] = []
    for index, x in enumerate(batches):
        measured = moments(net, [x])
        if index < PARTS:
            parts.append(measured)
        else:
            parts[index % PARTS] = _merged(parts[index % PARTS], measured)
    return GroupMoments(reduce(_merged, parts, {}), tuple(parts))


def measure_layers(
    net: nn.Module,
    balanced: Statistics,
    by_group: Mapping[str, GroupMoments],
    shares: Sequence[float],
) -> tuple[Layer, ...]:
    """Measure every layer in use; `shares` are the groups' shares of the balanced population."""
    modules = layers(net)
    return tuple(
        _measure(name, modules[name], population, by_group, np.array(shares))
        for name, population in balanced.items()
    )


def _measure(
    name: str,
    layer: NormLayer,
    population: Moments,
    by_group: Mapping[str, GroupMoments],
    balanced_shares: Vector,
) -> Layer:
    eps = layer.eps
    mean, var = layer.running_mean.cpu().double(), layer.running_var.cpu().double() + eps  # type: ignore[union-attr]
    true_mean, true_var = population.mean.cpu().double(), population.var.cpu().double() + eps
    shift, ratio, kl = _differences(layer, population)
    coordinates = Coordinates(true_mean, true_var, eps)
    lean = lean_of(
        coordinates.of(Moments(mean, var - eps, 0)),
        [coordinates.of(group.whole[name]) for group in by_group.values()],
        [
            [coordinates.of(part[name]) for part in group.parts if name in part]
            for group in by_group.values()
        ],
        balanced_shares,
    )
    scale = np.sqrt(len(mean))
    return Layer(
        name=name,
        kind=type(layer).__name__,
        channels=len(mean),
        shift=_rms(shift),
        log_ratio=_rms(ratio.log()),
        kl=float(kl.mean()),
        separation=float(lean.separation / scale),
        unexplained=float(lean.unexplained / scale),
        shares=dict(zip(by_group, lean.shares.tolist(), strict=True)) if lean.certain else None,
        newest_margin=lean.margin if lean.certain else None,
    )


def distance(layer: NormLayer, population: Moments) -> float:
    """Measure how far φ of a layer is from these moments, as `Layer.distance` does."""
    return math.sqrt(2 * float(_differences(layer, population)[2].mean()))


def _differences(layer: NormLayer, population: Moments) -> tuple[Tensor, Tensor, Tensor]:
    """Return the standardised difference of means, the ratio of variances, and the divergence
    ½(KL(φ|p) + KL(p|φ)) of normal distributions, of each channel."""
    mean, var = layer.running_mean.cpu().double(), layer.running_var.cpu().double()  # type: ignore[union-attr]
    true_var = population.var.cpu().double() + layer.eps
    shift = (mean - population.mean.cpu().double()) / true_var.sqrt()
    ratio = (var + layer.eps) / true_var
    return shift, ratio, ((ratio + 1 / ratio - 2) + shift**2 * (1 + 1 / ratio)) / 4


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Coordinates in which the moments of a mixture are the mixture of the moments: means and
    second moments about the population, the origin, in its standard deviations."""

    mean: Tensor
    var: Tensor
    eps: float

    def of(self, moments: Moments) -> Vector:
        shift = (moments.mean.cpu().double() - self.mean) / self.var.sqrt()
        second = (moments.var.cpu().double() + self.eps) / self.var + shift**2 - 1
        # With equal weight in the likelihood of a normal distribution.
        return torch.cat([shift, second / 2**0.5]).numpy()


@dataclass(frozen=True, slots=True)
class Lean:
    """φ as a mixture of groups."""

    shares: Vector
    margin: float
    """Half of the 95% interval of the newest group's share."""
    separation: float
    """The distance of the newest group from the others."""
    unexplained: float
    """The distance of φ from every mixture."""
    certain: bool
    """Whether the shares can be determined."""


def lean_of(
    phi: Vector,
    groups: Sequence[Vector],
    parts: Sequence[Sequence[Vector]],
    balanced_shares: Vector,
) -> Lean:
    """Write φ as a mixture of the groups' moments and of the balanced population, which is the
    origin. `parts` are moments of parts of each group.

    In the first layer the origin is itself a mixture of the groups. In deeper ones it is not, as
    joint batches are normalised jointly; with it, both a balanced φ and one that followed a single
    group are explained exactly at every depth. The shares cannot be determined if the distance of
    the newest group from the others may be chance, or is less than that of φ from all mixtures.
    """
    corners = np.stack(groups, axis=1)
    weights = _nearest_mixture(corners, phi)
    unexplained = float(np.linalg.norm(phi - corners @ weights))
    old = balanced_shares[:-1] / balanced_shares[:-1].sum()
    separation = float(np.linalg.norm(groups[-1] - np.stack(groups[:-1], axis=1) @ old))
    errors = [_squared_error(own) for own in parts]
    chance = float(np.sqrt(errors[-1] + np.array(errors[:-1]) @ old))
    certain = separation > CERTAIN * chance and unexplained <= separation
    shares = weights + (1 - weights.sum()) * balanced_shares
    margin = _newest_margin(corners, shares, parts, balanced_shares) if certain else math.inf
    return Lean(shares, margin, separation, unexplained, certain)


def _newest_margin(
    corners: Vector, shares: Vector, parts: Sequence[Sequence[Vector]], balanced_shares: Vector
) -> float:
    """Estimate the effect of errors in the corners, and in the origin, which is made of the same
    samples, on the newest group's share: to first order, by Student's distribution."""
    from scipy.stats import t

    newest = np.eye(len(shares))[-1] - balanced_shares[-1]
    # In the first layer the origin is a mixture of the corners, so one direction is void.
    slope = newest @ np.linalg.pinv(corners, rcond=NO_DIRECTION)
    variance = sum(
        share**2 * _squared_error([slope @ part for part in own])
        for share, own in zip(shares, parts, strict=True)
    )
    freedom = sum(len(own) - 1 for own in parts)
    return float(t.ppf(0.975, freedom) * np.sqrt(variance))


def _nearest_mixture(corners: Vector, phi: Vector) -> Vector:
    """Find weights ≥ 0 with a sum ≤ 1 that bring the weighted corners nearest to φ."""
    from scipy.optimize import nnls

    # A heavy row of ones holds the sum at 1; the origin's column takes the slack.
    heavy = 1e4 * max(float(np.abs(corners).max()), float(np.abs(phi).max()), 1e-12)
    columns = np.column_stack([corners, np.zeros(len(corners))])
    weights, _ = nnls(np.vstack([columns, np.full(columns.shape[1], heavy)]), np.append(phi, heavy))
    return weights[:-1] / weights.sum()  # type: ignore[no-any-return]


def _squared_error(parts: Sequence[Vector]) -> float:
    """Return the squared standard error of the mean of these parts."""
    count = len(parts)
    if count < 2:
        return math.inf
    values = np.stack(parts)
    return float(np.square(values - values.mean(0)).sum()) / (count * (count - 1))


def _merged(first: Statistics, second: Statistics) -> Statistics:
    return {
        name: first[name].merge(second[name]) if name in first and name in second else either
        for name, either in {**first, **second}.items()
    }


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())
