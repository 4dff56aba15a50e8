"""The only builder of learners from names: of the method, the network and its normalisation."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from bntricks.methods import make
from bntricks.networks.options import NetworkOptions
from bntricks.networks.registry import build_network
from bntricks.recipes.language import Method
from bntricks.recipes.options import TrainingOptions
from bntricks.seeds import Generators
from bntricks.training.learner import Learner


def build_learner(
    method: str | Method,
    hyper: Mapping[str, float],
    options: TrainingOptions,
    *,
    net: nn.Module | NetworkOptions,
    shape: Sequence[int],
    outputs: int,
    seed: int,
    tasks: int | None,
    **how: Any,
) -> Learner:
    """Build a learner. `method` is a recipe, or the name of one, with its hyper-parameters; `net`
    is a network, or the options of one for samples of this `shape`. Further keywords are those of
    `Learner`."""
    recipe = make(method, **hyper) if isinstance(method, str) else method
    generators = Generators.of(seed)
    if isinstance(net, NetworkOptions):
        known = {"tasks": tasks, "as_published": options.as_published}
        net = build_network(net, shape, outputs, generators.init, **known)
    return Learner(net, recipe, options, seed=generators, tasks=tasks, **how)
