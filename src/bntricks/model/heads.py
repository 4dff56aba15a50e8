"""Classifiers on the features of a frozen trunk: class means, shrunk LDA, and a balanced linear
layer. Each is a linear layer of the features, so whichever serves becomes the network's own last
layer.

The first two need sums over images alone: how many of each class, their mean, and the scatter
within classes. Sums do not depend on the order of images or lessons, so nothing is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor

from bntricks.streams import Images

TEMPERATURES = torch.logspace(-1, 3, 101)
"""By one of which scores are divided, so that probabilities fit held-out images."""
SHRINKAGE, SHRINKAGES = 0.5, (0.1, 0.3, 0.5, 0.7, 0.9)
"""Of the covariance: where nothing is held out, and those that held-out images choose from."""
FEWEST_TO_CALIBRATE = 10
"""Images that choose a temperature, at least."""
ITERATIONS = 200
"""Of L-BFGS, at most."""

Layer = tuple[Tensor, Tensor]
"""Weight [C, D] and bias [C] of a linear layer."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Sums over the features of images, in float64, from which class means and LDA follow."""

    counts: Tensor
    """Images of each class, [C]."""
    means: Tensor
    """Their mean features, [C, D]."""
    scatter: Tensor
    """Σ (f - μ)(f - μ)ᵀ over all images, each with the mean μ of its class, [D, D]."""
    freedom: int = 0
    """Images in the scatter, less one for each class."""

    @classmethod
    def empty(cls, width: int) -> Statistics:
        """Return the statistics of no images."""
        zeros = torch.zeros(width, width, dtype=torch.float64)
        return cls(torch.zeros(0, dtype=torch.int64), zeros[:0], zeros)

    def state_dict(self) -> dict[str, Tensor]:
        """Return tensors for a file, with one half of the symmetric scatter."""
        width = len(self.scatter)
        half = self.scatter[torch.tril_indices(width, width).unbind()]
        freedom = torch.tensor(self.freedom)
        return {"counts": self.counts, "means": self.means, "half": half, "freedom": freedom}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], classes: int, width: int) -> Statistics:
        """Read what `state_dict` wrote, or raise a ValueError."""
        wanted = {
            "counts": (torch.int64, (classes,)),
            "means": (torch.float64, (classes, width)),
            "half": (torch.float64, (width * (width + 1) // 2,)),
            "freedom": (torch.int64, ()),
        }
        if {k: (v.dtype, tuple(v.shape)) for k, v in state.items()} != wanted:
            raise ValueError("statistics of other classes or features")
        if not all(v.isfinite().all() for v in state.values()) or (state["counts"] < 0).any():
            raise ValueError("statistics that no images have")
        scatter = torch.zeros(width, width, dtype=torch.float64)
        scatter[torch.tril_indices(width, width).unbind()] = state["half"]
        scatter = scatter + scatter.tril(-1).T
        return cls(state["counts"], state["means"], scatter, int(state["freedom"]))

    def added(self, images: Images, classes: int) -> Statistics:
        """Add images, whose labels are below `classes`."""
        x, more = images.x.double(), torch.bincount(images.y, minlength=classes)
        new = classes - len(self.counts)
        before = F.pad(self.counts, (0, new))
        old = F.pad(self.means, (0, 0, 0, new))
        own = torch.zeros_like(old).index_add(0, images.y, x) / more.clamp(min=1)[:, None]
        counts = before + more
        # Of both parts together (parallel variance): the distance between their means counts too.
        share = more / counts.clamp(min=1).double()
        centred, between = x - own[images.y], (own - old) * (before * share).sqrt()[:, None]
        scatter = self.scatter + centred.T @ centred + between.T @ between
        means = old + (own - old) * share[:, None]
        freedom = self.freedom + len(images) - int(((before == 0) & (more > 0)).sum())
        return Statistics(counts, means, scatter, freedom)

    def kept(self, classes: list[int]) -> Statistics:
        """Keep these classes; the contribution of others to the scatter stays."""
        return Statistics(self.counts[classes], self.means[classes], self.scatter, self.freedom)

    def covariance(self, shrinkage: float) -> Tensor:
        """Return the covariance within classes, shrunk towards a sphere by this share."""
        width = len(self.scatter)
        covariance = self.scatter / max(self.freedom, 1)
        # Above 0, also where all features are the same.
        sphere = max(shrinkage * float(covariance.trace()) / width, 1e-9)
        return (1 - shrinkage) * covariance + sphere * torch.eye(width, dtype=torch.float64)


def discriminant(statistics: Statistics, shrinkage: float) -> Layer:
    """Make shrunk LDA, with every class as probable as the others; with a shrinkage of 1, it is the
    nearest class mean. A score says how much likelier the features are of that class than of a
    Gaussian about the centre of all classes, so the highest one tells whether an image may be of
    any."""
    root = torch.linalg.cholesky(statistics.covariance(shrinkage))
    means, centre = statistics.means, statistics.means.mean(0)
    weight = torch.cholesky_solve((means - centre).T, root).T
    return weight, -(weight * (means + centre)).sum(1) / 2


def balanced_layer(stored: Images, classes: int) -> Layer:
    """Fit logistic regression on stored features, with the same weight for every class and half the
    squared weights as penalty."""
    x, y = stored.x.float(), stored.y
    counts = torch.bincount(y, minlength=classes)
    share = len(y) / (classes * counts.clamp(min=1).float())
    weight = torch.zeros(classes, x.shape[1], requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weight, bias], max_iter=ITERATIONS, history_size=10, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        errors = F.cross_entropy(F.linear(x, weight, bias), y, share, reduction="sum")
        value = errors + weight.square().sum() / 2
        value.backward()  # type: ignore[no-untyped-call]
        return value

    with torch.enable_grad():
        optimiser.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()


def all_layers(statistics: Statistics, stored: Images, tests: Images) -> dict[str, Layer]:
    """Make the layers of all heads that these data suffice for. LDA's shrinkage is chosen on
    held-out images."""
    classes = len(statistics.counts)
    shrunk = [_float(discriminant(statistics, share)) for share in SHRINKAGES if len(tests)]

    def loss(layer: Layer) -> float:
        return float(_losses(F.linear(tests.x.float(), *layer), tests.y).min())

    lda = min(shrunk, key=loss, default=None)
    layers = {
        "lda": lda or _float(discriminant(statistics, SHRINKAGE)),
        "means": _float(discriminant(statistics, 1.0)),
    }
    if classes > 1 and (torch.bincount(stored.y, minlength=classes) > 0).all():
        layers["linear"] = balanced_layer(stored, classes)
    return layers


def calibrated(layer: Layer, tests: Images) -> Layer:
    """Divide scores by the temperature whose probabilities fit held-out images; no answer
    changes."""
    temperature = temperature_of(F.linear(tests.x.float(), *layer), tests.y)
    return layer[0] / temperature, layer[1] / temperature


def temperature_of(scores: Tensor, y: Tensor) -> float:
    """Return the temperature by which to divide scores, so that their probabilities fit these
    images, with the same weight for every class; 1 if there are few. The logarithm has a Gaussian
    prior, so that a handful of right answers does not look certain."""
    if len(y) < FEWEST_TO_CALIBRATE:
        return 1.0
    losses = _losses(scores, y) * len(y) / len(set(y.tolist())) + TEMPERATURES.log().square() / 2
    return float(TEMPERATURES[losses.argmin()])


def right(layer: Layer, tests: Images) -> Tensor:
    """Return which of these features are recognised."""
    return F.linear(tests.x.float(), *layer).argmax(1) == tests.y


def accuracy(layer: Layer, tests: Images) -> float:
    """Return the accuracy in percent, with the same weight for every class."""
    own, y = right(layer, tests), tests.y
    return 100 * fmean(float(own[y == label].float().mean()) for label in set(y.tolist()))


def _losses(scores: Tensor, y: Tensor) -> Tensor:
    """Return the loss at each temperature, summed over the means of classes."""
    weights = 1 / torch.bincount(y)[y]
    losses = (F.cross_entropy(scores / t, y, reduction="none") * weights for t in TEMPERATURES)
    return torch.stack([loss.sum() for loss in losses])


def _float(layer: Layer) -> Layer:
    return layer[0].float(), layer[1].float()
