"""φ against the population, layer by layer: how far it is, and whose moments it follows.

All moments are measured as φ itself is in training, each batch normalised by its own statistics.
So a fault of one layer's φ shows in that layer alone, whatever it does to later ones in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bntricks.doctor.diagnosis import Layer
from bntricks.norm import Moments, Statistics, layers, moments

Vector = NDArray[np.float64]

CERTAIN = 2.0
"""Groups are apart when their moments differ by this many times what two halves of one differ."""


@dataclass(frozen=True, slots=True)
class Corner:
    """The moments φ would have, had it followed one group only; and those of its two halves."""

    whole: Statistics
    halves: tuple[Statistics, Statistics] | None


def corner(net: nn.Module, batches: Iterable[Tensor]) -> Corner:
    """A group's own moments."""
    parts: list[Statistics] = [{}, {}]
    for index, x in enumerate(batches):
        parts[index % 2] = _merged(parts[index % 2], moments(net, [x]))
    first, second = parts
    return Corner(_merged(first, second), (first, second) if second else None)


def measure(
    net: nn.Module,
    balanced: Statistics,
    corners: Mapping[str, Corner],
    shares: Sequence[float],
) -> tuple[Layer, ...]:
    """Every layer that is used; `shares` are the groups' parts of the balanced population."""
    found = layers(net)
    return tuple(
        _layer(name, found[name], balanced[name], corners, np.array(shares)) for name in balanced
    )


def _layer(
    name: str,
    layer: _BatchNorm,
    population: Moments,
    corners: Mapping[str, Corner],
    balanced_shares: Vector,
) -> Layer:
    eps = layer.eps
    mean, var = layer.running_mean.double(), layer.running_var.double() + eps  # type: ignore[union-attr]
    true_mean, true_var = population.mean.double(), population.var.double() + eps
    shift = (mean - true_mean) / true_var.sqrt()
    ratio = var / true_var
    # ½(KL(φ|p) + KL(p|φ)) of normal distributions.
    kl = ((ratio + 1 / ratio - 2) + shift**2 * (1 + 1 / ratio)) / 4

    frame = Frame(true_mean, true_var, eps)
    own = [frame.place(one.whole[name]) for one in corners.values()]
    wobble = [_wobble(frame, name, one) for one in corners.values()]
    lean = leaning(frame.place(Moments(mean, var - eps, 0)), own, wobble, balanced_shares)
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
        shares=None
        if lean.shares is None
        else dict(zip(corners, lean.shares.tolist(), strict=True)),
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """Coordinates in which the moments of a mixture are the mixture of the moments: means and
    second moments about the population's mean, in its standard deviations. The population is 0."""

    mean: Tensor
    var: Tensor
    eps: float

    def place(self, of: Moments) -> Vector:
        shift = (of.mean.double() - self.mean) / self.var.sqrt()
        second = (of.var.double() + self.eps) / self.var + shift**2 - 1
        # Of equal weight to the likelihood of a normal distribution.
        return torch.cat([shift, second / 2**0.5]).cpu().numpy()


@dataclass(frozen=True, slots=True)
class Lean:
    """Which mixture of the corners explains φ best."""

    shares: Vector | None
    separation: float
    unexplained: float


def leaning(
    phi: Vector, corners: Sequence[Vector], wobble: Sequence[float], balanced_shares: Vector
) -> Lean:
    """φ as a mixture of the corners and of the balanced population, which is the origin.

    In the first layer the origin is a mixture of the corners anyhow. In deeper ones it is not, as
    joint batches are normalised jointly; with it, both a balanced φ and one that followed a single
    group are explained exactly at every depth. The shares cannot be told if the newest corner is
    no further from the others than chance puts it, or φ is further from all mixtures than that.
    """
    weights = _mixture(np.stack(corners, axis=1), phi)
    unexplained = float(np.linalg.norm(phi - np.stack(corners, axis=1) @ weights))
    old = balanced_shares[:-1] / balanced_shares[:-1].sum()
    separation = float(np.linalg.norm(corners[-1] - np.stack(corners[:-1], axis=1) @ old))
    chance = float(np.sqrt(wobble[-1] ** 2 + np.square(wobble[:-1]) @ old))
    told = separation > CERTAIN * chance and unexplained <= separation
    shares = weights + (1 - weights.sum()) * balanced_shares
    return Lean(shares if told else None, separation, unexplained)


def _mixture(corners: Vector, phi: Vector) -> Vector:
    """Weights ≥ 0 with a sum ≤ 1 that bring the corners' sum nearest to φ."""
    from scipy.optimize import nnls

    # The sum is held to 1 by a heavy row of ones; the column of the origin takes up the slack.
    heavy = 1e4 * max(float(np.abs(corners).max()), float(np.abs(phi).max()), 1e-12)
    columns = np.column_stack([corners, np.zeros(len(corners))])
    found, _ = nnls(np.vstack([columns, np.full(columns.shape[1], heavy)]), np.append(phi, heavy))
    return found[:-1] / found.sum()  # type: ignore[no-any-return]


def _wobble(frame: Frame, name: str, one: Corner) -> float:
    """The standard error of a corner, from how far its two halves are apart."""
    if one.halves is None:
        return float("inf")
    first, second = (frame.place(half[name]) for half in one.halves)
    return float(np.linalg.norm(first - second)) / 2


def _merged(one: Statistics, other: Statistics) -> Statistics:
    return {
        name: one[name].merge(other[name]) if name in one and name in other else found
        for name, found in {**one, **other}.items()
    }


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())
