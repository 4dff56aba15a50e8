"""The one builder of learners, from names: the method, the network and what normalises it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from bntricks.methods import make
from bntricks.networks.registry import build_network
from bntricks.recipes.language import Method
from bntricks.seeds import Generators
from bntricks.training.learner import Learner


def build_learner(
    method: str | Method,
    hyper: Mapping[str, float],
    *,
    net: str | nn.Module,
    shape: Sequence[int],
    outputs: int,
    seed: int,
    network: Mapping[str, Any],
    **how: Any,
) -> Learner:
    """`method` is a recipe, or the name of one, made with these hyper-parameters. `net` is a
    network, or the name of one to be built for samples of this `shape`, from the
    `network` options of `build_network`. Further keywords are those of `Learner`."""
    recipe = make(method, **hyper) if isinstance(method, str) else method
    generators = Generators.of(seed)
    if isinstance(net, str):
        net = build_network(net, shape, outputs, generators.init, **network)
    return Learner(net, recipe, seed=generators, **how)
