"""Which running statistics φ a lesson leaves is a decision: as it was trained, re-estimated on the
memory, which has the same number of images of each class, or the mean of both. It is made on the
held-out images that choose, and stands only if the others confirm it."""

from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

from bntricks.model.samples import choosing
from bntricks.norm import layers, mixed_phi, phi, recalibrate, set_phi
from bntricks.streams import Images
from bntricks.training.learner import Learner

FEWEST = 2
"""Images of every class in the memory and in each part of the held-out ones, at least."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The chosen candidate, and the accuracy in percent of each on the held-out images that choose
    and on those that confirm."""

    chosen: str
    accuracy: dict[str, tuple[float, float]]


def settle_phi(learner: Learner, tests: Images) -> Decision | None:
    """Give the network the φ with the best accuracy; without images to decide by, leave it as it is
    and return None."""
    memory, net = learner.memory, learner.net
    if memory is None or memory.x is None or learner.method.classify.fits != "never":
        return None
    stored, parts = memory.y[: memory.filled].cpu(), parted(tests.y)
    labels = set(tests.y.tolist())
    if not layers(net) or not labels or set(stored.tolist()) != labels:
        return None
    for y in (stored, *(tests.y[part] for part in parts)):
        if torch.bincount(y, minlength=max(labels) + 1)[sorted(labels)].min() < FEWEST:
            return None
    trained = phi(net)
    order = torch.randperm(len(stored), generator=torch.Generator().manual_seed(0))
    batches = torch.tensor_split(order.to(memory.x.device), -(-len(order) // 256))
    recalibrate(net, (learner.view(memory.x[rows], None) for rows in batches))
    balanced = phi(net)
    mean = mixed_phi(trained, balanced, 0.5)
    candidates = {"as trained": trained, "re-estimated": balanced, "the mean of both": mean}
    accuracy = {}
    for name, values in candidates.items():
        set_phi(net, values)
        accuracy[name] = class_means(learner.predict(tests.x) == tests.y, tests.y, parts)
    chosen = better("as trained", accuracy)
    set_phi(net, candidates[chosen])
    return Decision(chosen, accuracy)


def better(default: str, accuracy: dict[str, tuple[float, float]]) -> str:
    """Choose the best on the images that choose, if it beats the default on both parts."""
    best = max(accuracy, key=lambda name: accuracy[name][0])
    beats = (mine > its for mine, its in zip(accuracy[best], accuracy[default], strict=True))
    return best if all(beats) else default


def parted(y: Tensor) -> tuple[Tensor, Tensor]:
    """Select the held-out images that choose, and those that confirm."""
    first = choosing(y)
    return first, ~first


def class_means(right: Tensor, y: Tensor, parts: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """Return the accuracy in percent on each part, with the same weight for every class."""

    def mean(part: Tensor) -> float:
        own = [right[part & (y == label)].float() for label in set(y[part].tolist())]
        return 100 * fmean(float(each.mean()) for each in own) if own else 0.0

    return mean(parts[0]), mean(parts[1])
