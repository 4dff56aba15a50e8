"""Corrections of the head's bias towards new classes. Most fit a few numbers when a task is over
and rescore logits by them; θ and φ stay, so one training can be read off by several.

`@correction("name")` registers one, and `Corrected` makes a classifier of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bntricks.networks.head import last_linear
from bntricks.plugins.registry import Registry
from bntricks.recipes.classifiers import LINEAR, Fitted
from bntricks.recipes.language import Method
from bntricks.recipes.policies import stored

if TYPE_CHECKING:
    from bntricks.batch import Batch
    from bntricks.training.state import State


class Correction(Protocol):
    """A correction of logits. Your own inherits from this class and overrides what differs."""

    beyond: ClassVar[Mapping[str, float]] = {}
    """The value of each fitted tensor, [C], for outputs added to the head since."""
    needs_memory: ClassVar[bool] = False
    """Whether it uses stored samples of old classes."""
    compares_lengths: ClassVar[bool] = False
    """Whether it compares the lengths of weights, which a cosine head ignores."""

    def fit(self, state: State, samples: Batch | None) -> Fitted:
        """Fit to the state as a task ends, in evaluation mode, and to the task's raw samples.
        `state.fitted` is what was fitted before."""
        return {}

    def rescore(self, fitted: Fitted, logits: Tensor) -> Tensor:
        """Return scores [B, C] for logits [B, C]."""
        return logits

    def applied(self, method: Method, name: str) -> Method:
        """Return the method with this correction, which is registered by this name."""
        return replace(method, classify=Corrected(name, self))


CORRECTIONS: Registry[Correction] = Registry("correction")
Kind = TypeVar("Kind", bound=Correction)


def correction(name: str) -> Callable[[type[Kind]], type[Kind]]:
    """Register a class of corrections by name; it is made without arguments."""

    def register(kind: type[Kind]) -> type[Kind]:
        CORRECTIONS.add(name, kind())
        return kind

    return register


@dataclass(frozen=True, slots=True)
class Corrected:
    """The network's last layer, whose logits are rescored."""

    name: str
    correction: Correction
    fits: Literal["task end"] = "task end"

    def fit(self, state: State, samples: Batch | None) -> Fitted:
        return self.correction.fit(state, samples)

    def scores(self, state: State, x: Tensor) -> Tensor:
        return self.rescored(state.fitted, LINEAR.scores(state, x).float())

    def grown(self, fitted: Fitted, outputs: int) -> Fitted:
        """Extend what was fitted to a head that has grown to `outputs`."""
        beyond = self.correction.beyond
        return {
            name: F.pad(values, (0, outputs - len(values)), value=beyond[name])
            for name, values in fitted.items()
        }

    def rescored(self, fitted: Fitted, logits: Tensor) -> Tensor:
        """Rescore logits, once something is fitted."""
        return self.correction.rescore(fitted, logits) if fitted else logits

    def head(self, state: State) -> nn.Module:
        return CorrectedHead(last_linear(state.net), self, state.fitted)

    def __str__(self) -> str:
        return f"linear, corrected by {self.name}"


class CorrectedHead(nn.Module):
    """`Corrected.scores` as a module from features."""

    def __init__(self, linear: nn.Linear, corrected: Corrected, fitted: Fitted) -> None:
        super().__init__()
        self.linear, self.corrected, self.fitted = linear, corrected, fitted

    def forward(self, features: Tensor) -> Tensor:
        return self.corrected.rescored(self.fitted, self.linear(features))


@correction("none")
class Uncorrected(Correction):
    """The head as it was trained."""

    def applied(self, method: Method, name: str) -> Method:
        return method


@correction("wa")
@dataclass(frozen=True)
class AlignWeights(Correction):
    """WA (Zhao et al. 2020): a stage that scales the new classes' rows of the head, so that on
    average they are as long as those of the old classes. The next task starts from there."""

    compares_lengths = True

    def applied(self, method: Method, name: str) -> Method:
        return method if self in method.stages else replace(method, stages=(self, *method.stages))

    @torch.no_grad()
    def __call__(self, state: State, samples: Batch | None) -> None:
        weight = last_linear(state.net).weight
        weight[list(state.lesson.new)] *= alignment(state)

    def __str__(self) -> str:
        return "align the head's weights"


@torch.no_grad()
def alignment(state: State) -> float:
    """Divide the mean length of the head's old rows by that of its new ones; 1 in task 1."""
    if not state.lesson.old:
        return 1.0
    length = torch.linalg.vector_norm(last_linear(state.net).weight, dim=1)
    old, new = length[list(state.lesson.old)].mean(), length[list(state.lesson.new)].mean()
    return float(old / new)


@correction("wa-eval")
class Aligned(Correction):
    """WA for prediction alone: the head's new rows, scaled to the mean length of the old ones.
    Biases are not scaled."""

    beyond: ClassVar[Mapping[str, float]] = {"scale": 1.0, "bias": 0.0}
    compares_lengths = True

    def fit(self, state: State, samples: Batch | None) -> Fitted:
        linear = last_linear(state.net)
        scale = torch.ones_like(linear.weight[:, 0], requires_grad=False)
        scale[list(state.lesson.new)] = alignment(state)
        bias = torch.zeros_like(scale) if linear.bias is None else linear.bias.detach().clone()
        return {"scale": scale, "bias": bias}

    def rescore(self, fitted: Fitted, logits: Tensor) -> Tensor:
        return torch.lerp(fitted["bias"], logits, fitted["scale"])


@correction("bic")
class BiasCorrection(Correction):
    """BiC (Wu et al. 2019), its second stage: z → a·z + b for the newest classes' logits.

    The authors fit a and b on held-out images. Here they are fitted on the memory, with the same
    weight for every class; a memory that was learned by heart understates the bias.
    """

    beyond: ClassVar[Mapping[str, float]] = {"scale": 1.0, "shift": 0.0}
    needs_memory = True

    def fit(self, state: State, samples: Batch | None) -> Fitted:
        new = _mask(state, state.lesson.new)
        a, b = 1.0, 0.0
        memory = stored(state)
        if state.lesson.old and memory.x is not None:
            columns = list(state.lesson.seen)
            place = torch.full((len(new),), -1)
            place[columns] = torch.arange(len(columns))
            y = place[memory.y[: len(memory)]]
            known = y >= 0  # a blurry stream has samples of classes still to come
            logits = state.outputs(memory.x[: len(memory)])[:, columns].cpu()
            a, b = fit_bias(logits[known], y[known], new.cpu()[columns])
        scale, shift = torch.where(new, a, 1.0), torch.where(new, b, 0.0)
        return {"scale": scale, "shift": shift}

    def rescore(self, fitted: Fitted, logits: Tensor) -> Tensor:
        return fitted["scale"] * logits + fitted["shift"]


def fit_bias(
    logits: Tensor, y: Tensor, new: Tensor, *, penalty: float = 0.1, steps: int = 200
) -> tuple[float, float]:
    """Fit a and b of the `new` columns, by cross-entropy with the same weight for every class that
    is there, plus penalty·b²/2.

    Gradient descent starts from (1, 0), at the authors' rate of 0.1, or less where large logits
    would make it overshoot, and their momentum of 0.9. It stops after `steps`: on a memory without
    a mistake the best a is infinite.
    """
    z = logits.double()
    weight = 1 / torch.bincount(y)[y].double()
    weight /= weight.sum()
    with torch.enable_grad():
        ab = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
        curvature = (weight * (z[:, new].square().amax(1) + 1)).sum().item() / 2 + penalty
        rate, velocity = min(0.1, 1 / curvature), torch.zeros_like(ab)
        for _ in range(steps):
            corrected = torch.where(new, ab[0] * z + ab[1], z)
            losses = F.cross_entropy(corrected, y, reduction="none")
            loss = (weight * losses).sum() + penalty * ab[1] ** 2 / 2
            (slope,) = torch.autograd.grad(loss, ab)
            velocity.mul_(0.9).add_(slope)
            with torch.no_grad():
                ab.add_(velocity, alpha=-rate)
    a, b = ab.tolist()
    return a, b


@correction("il2m")
class Rectified(Correction):
    """IL2M (Belouadah & Popescu 2019): where a new class wins, the probability of each old class is
    multiplied by the network's confidence in it when it was new, over its confidence now.

    Scores are probabilities among the classes seen.
    """

    beyond: ClassVar[Mapping[str, float]] = {
        "then": torch.nan,
        "sure": torch.nan,
        "factor": 1.0,
        "new": False,
        "seen": False,
    }
    needs_memory = True

    def fit(self, state: State, samples: Batch | None) -> Fitted:
        if samples is None:
            raise ValueError("IL2M looks at the task's samples: end(x, y)")
        new, seen = _mask(state, state.lesson.new), _mask(state, state.lesson.seen)
        nothing = torch.full(new.shape, torch.nan, device=new.device)
        then, sure = (state.fitted.get(key, nothing) for key in ("then", "sure"))
        own = _probabilities(state.outputs(samples.x), seen)
        then = torch.where(new, _mean_of_own_class(own, samples.y), then)
        sure = torch.where(new, own.amax(1).mean(), sure)
        factor, memory = torch.ones_like(then), stored(state)
        if state.lesson.old and memory.x is not None:
            filled = slice(len(memory))
            replayed = _probabilities(state.outputs(memory.x[filled]), seen)
            now = _mean_of_own_class(replayed, memory.y[filled])
            ratio = then / now * (sure[state.lesson.new[0]] / sure)
            factor = torch.where(new, 1.0, ratio.nan_to_num(1.0, 1.0, 1.0))
        return {"then": then, "sure": sure, "factor": factor, "new": new, "seen": seen}

    def rescore(self, fitted: Fitted, logits: Tensor) -> Tensor:
        p = _probabilities(logits, fitted["seen"])
        new_wins = fitted["new"][p.argmax(1)]
        return torch.where(new_wins[:, None], p * fitted["factor"], p)


@correction("prior")
class Prior(Correction):
    """Logit adjustment after training: each logit less the log of its class's share of the samples
    that moved θ in this task, replayed ones included. Classes not seen yet score -inf."""

    beyond: ClassVar[Mapping[str, float]] = {"adjustment": -torch.inf}

    def fit(self, state: State, samples: Batch | None) -> Fitted:
        seen = _mask(state, state.lesson.seen)
        counts = F.pad(state.trained_on, (0, len(seen) - len(state.trained_on))) + 1
        total = counts[list(state.lesson.seen)].sum()
        share = (counts.float() / total.float()).to(seen.device)
        return {"adjustment": torch.where(seen, -share.log(), -torch.inf)}

    def rescore(self, fitted: Fitted, logits: Tensor) -> Tensor:
        return logits + fitted["adjustment"]


def _mask(state: State, classes: tuple[int, ...]) -> Tensor:
    """Mark the head's outputs of these classes."""
    weight = last_linear(state.net).weight
    mask = torch.zeros(len(weight), dtype=torch.bool)
    mask[list(classes)] = True
    return mask.to(weight.device)


def _probabilities(logits: Tensor, seen: Tensor) -> Tensor:
    return logits.masked_fill(~seen, -torch.inf).softmax(1)


def _mean_of_own_class(p: Tensor, y: Tensor) -> Tensor:
    """Average, for each class, its probability over its samples; NaN if there are none."""
    y = y.to(p.device)
    sums = p.new_zeros(p.shape[1]).index_add(0, y, p.gather(1, y[:, None])[:, 0])
    return sums / torch.bincount(y, minlength=p.shape[1])
