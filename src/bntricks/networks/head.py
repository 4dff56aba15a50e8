"""What turns features into scores: the last linear layer, which grows with the classes (spec A20),
and the nearest class mean that iCaRL puts in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor, nn

from bntricks.networks.resnet import classifier
from bntricks.seeds import construction

if TYPE_CHECKING:
    from bntricks.training.step import State


@torch.no_grad()
def grow(net: nn.Module, outputs: int, generator: Generator) -> None:
    """Widen the classifier to this many outputs, in place. Old rows stay to the bit; new ones are
    PyTorch's default initialisation. Optimisers made before hold the old parameters."""
    linear = classifier(net)
    more = outputs - linear.out_features
    if more < 0:
        raise ValueError(f"a head of {linear.out_features} outputs cannot shrink to {outputs}")
    if not more:
        return
    with construction(generator):
        new = nn.Linear(linear.in_features, more, bias=linear.bias is not None).to(linear.weight)
    linear.weight = _joined(linear.weight, new.weight)
    if linear.bias is not None:
        linear.bias = _joined(linear.bias, new.bias)
    linear.out_features = outputs


def class_means(state: State) -> tuple[Tensor, Tensor]:
    """The classes that have exemplars, and the mean feature of each."""
    memory = state.memory
    if not memory or memory.x is None:
        raise RuntimeError("no exemplars are stored yet: finish a task before predicting")
    features = state.features(memory.x[: memory.filled])
    classes, member = torch.unique(memory.y[: memory.filled], return_inverse=True)
    classes, member = classes.to(features.device), member.to(features.device)
    sums = features.new_zeros(len(classes), features.shape[1])
    sums.index_add_(0, member, features)
    return classes, sums / member.bincount()[:, None]


def nearness(features: Tensor, classes: Tensor, means: Tensor, outputs: int) -> Tensor:
    """Minus the squared distance to each class mean, [B, outputs]; classes without one: -inf."""
    distances = torch.cdist(features, means) ** 2
    scores = distances.new_full((len(features), outputs), -torch.inf)
    return scores.index_copy_(1, classes, -distances)


def _joined(old: Tensor, new: Tensor) -> nn.Parameter:
    return nn.Parameter(torch.cat([old, new]), requires_grad=old.requires_grad)
