"""How a label is read off a network: by its own linear layer, or by iCaRL's nearest class mean.

A classifier is a value in a recipe. It is fitted either when scores are requested and the network
has changed, or once when a task ends, from the task's samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor, nn

from bntricks.networks.head import last_linear
from bntricks.recipes.as_published import black

if TYPE_CHECKING:
    from bntricks.batch import Batch
    from bntricks.training.state import State

Fitted = dict[str, Tensor]
"""What a classifier has learned, as tensors by name; it lives in `State.fitted`."""


class Classifier(Protocol):
    """A way to score every class."""

    @property
    def fits(self) -> Literal["never", "when asked", "task end"]: ...

    def fit(self, state: State, samples: Batch | None) -> Fitted:
        """Learn what `scores` needs, with the network in evaluation mode. `samples` are the raw
        ones of the finished task, if they were given."""
        ...

    def scores(self, state: State, x: Tensor) -> Tensor:
        """Score network inputs, [B, C], by `state.net`, in the mode the caller has set."""
        ...

    def head(self, state: State) -> nn.Module | None:
        """Return a module from features to scores, for export; None: the network's own head."""
        ...


@dataclass(frozen=True, slots=True)
class Linear:
    """The network's last layer."""

    fits: Literal["never"] = "never"

    def fit(self, state: State, samples: Batch | None) -> Fitted:
        return {}

    def scores(self, state: State, x: Tensor) -> Tensor:
        with state.arithmetic(x):
            return state.net(x)  # type: ignore[no-any-return]

    def head(self, state: State) -> None:
        return None

    def __str__(self) -> str:
        return "linear"


LINEAR = Linear()


@dataclass(frozen=True, slots=True)
class NearestMean:
    """The class whose stored samples have the nearest mean feature. The score is minus the squared
    distance, or -inf for a class without stored samples."""

    fits: Literal["when asked"] = "when asked"

    def fit(self, state: State, samples: Batch | None) -> Fitted:
        """Compute the mean feature of each class that has exemplars."""
        memory = state.memory
        if not memory or memory.x is None:
            raise RuntimeError("no exemplars are stored yet: finish a task before predicting")
        x, y = memory.x[: memory.filled], memory.y[: memory.filled]
        if state.options.as_published and 0 in state.lesson.seen:
            empty = black(memory)
            x, y = torch.cat([x, empty.x]), torch.cat([y, empty.y])
        features = state.features(x)
        classes, member = torch.unique(y, return_inverse=True)
        classes, member = classes.to(features.device), member.to(features.device)
        sums = features.new_zeros(len(classes), features.shape[1])
        sums.index_add_(0, member, features)
        return {"classes": classes, "means": sums / member.bincount()[:, None]}

    def scores(self, state: State, x: Tensor) -> Tensor:
        distances = squared_distances(state.embed(x), state.fitted["means"])
        outputs = last_linear(state.net).out_features
        scores = distances.new_full((len(distances), outputs), -torch.inf)
        return scores.index_copy_(1, state.fitted["classes"], -distances)

    def head(self, state: State) -> nn.Module:
        outputs = last_linear(state.net).out_features
        return MeanHead(state.fitted["classes"], state.fitted["means"], outputs)

    def __str__(self) -> str:
        return "nearest class mean"


def squared_distances(features: Tensor, means: Tensor) -> Tensor:
    """Measure the distance of every row of features to every mean, [B, C].

    Both are centred first: `cdist` computes ‖f‖² − 2⟨f, m⟩ + ‖m‖², and where features share a large
    mean, the small differences between classes would be lost in rounding.
    """
    centre = means.mean(0)
    return torch.cdist(features - centre, means - centre) ** 2


class MeanHead(nn.Module):
    """`NearestMean.scores` as a module, made of operations that every runtime has."""

    means: Tensor
    missing: Tensor

    def __init__(self, classes: Tensor, means: Tensor, outputs: int) -> None:
        super().__init__()
        placed = means.new_zeros(outputs, means.shape[1]).index_copy(0, classes, means)
        missing = means.new_full((outputs,), torch.inf).index_fill(0, classes, 0.0)
        self.register_buffer("means", placed)
        self.register_buffer("missing", missing)  # infinitely far away

    def forward(self, features: Tensor) -> Tensor:
        difference = features[:, None] - self.means  # [B, C, F]
        return -(difference.square().sum(2) + self.missing)
