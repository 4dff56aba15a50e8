"""The normalisation of a run's network: its options, and which methods can use it."""

from dataclasses import replace

from torch import nn

from bntricks.errors import UserError
from bntricks.methods import entries, names_of
from bntricks.networks.norms import bound, knobs
from bntricks.networks.norms.variant import BatchNormVariant
from bntricks.norm import layers, undeclared
from bntricks.recipes.language import Method
from bntricks.runs.config import Config

PROBE_TASKS = 2
"""For a layer that is only inspected, any number will do."""


def unused_knobs(config: Config) -> dict[str, None]:
    """Return knobs that the norm lacks, or that have its defaults, as not set."""
    own = knobs(config.norm)
    chosen = config.norm_knobs.items()
    return {key: None for key, value in chosen if key not in own or value == own[key]}


def published_otherwise(config: Config) -> bool:
    """Whether the norm was published with a mistake that can be brought back."""
    return "as_published" in knobs(config.norm)


def reads_phi(config: Config) -> bool:
    """Whether φ takes part in every training pass."""
    return getattr(sample_layer(config), "reads_phi", False)


def check_norm(config: Config, method: Method) -> None:
    """Refuse norms that would train with this method and mean nothing."""
    layer = sample_layer(config)
    if not layers(layer):
        _check_without_phi(config, method)
    if isinstance(layer, BatchNormVariant):
        _check_variant(config, method, layer)


def _check_without_phi(config: Config, method: Method) -> None:
    moved = method.ema is not None or method.sets_ema is not None
    if moved and (hidden := undeclared(sample_layer(config))):
        raise _refusal(config, hidden)
    if method.ema is not None:
        names = names_of(replace(method, ema=None), config.hyper)
        instead = f"it would be {names[0]}, so run that" if names else "choose a method without one"
        raise _refusal(
            config, f"it has no running statistics for {config.method}'s EMA batch: {instead}"
        )
    if method.sets_ema is not None:
        raise _refusal(config, f"it has no running statistics for {config.method} to estimate anew")
    if method.memory is not None and method.memory.looks_inside:
        raise _refusal(
            config, f"{config.method} takes the gradients of single images through BatchNorm only"
        )


def _check_variant(config: Config, method: Method, layer: BatchNormVariant) -> None:
    if config.ranks > 1:
        raise _refusal(config, "it cannot be split over processes: do not split the run")
    if config.compile:
        raise _refusal(config, "it cannot be compiled: run it as it is", remedy="compile")
    if layer.needs_joint and not method.joins_replay:
        joint = f"{config.method}-joint"
        instead = joint if joint in entries() else "er"
        raise _refusal(
            config,
            f"it weighs old rows against new ones in one forward, which {config.method} does not "
            f"make: choose a method that does, such as {instead}",
        )
    if layer.keeps_phi and method.ema is not None:
        raise _refusal(
            config,
            f"{layer.keeps_phi}, and {config.method} names a batch to move them: choose another "
            "norm, or a method without an EMA batch",
        )


def sample_layer(config: Config) -> nn.Module:
    """Return a sample layer, for inspection."""
    known = {"tasks": PROBE_TASKS, "as_published": config.as_published}
    return bound(config.norm, **config.norm_knobs, **known)(config.width)


def _refusal(config: Config, reason: str, remedy: str | None = None) -> UserError:
    return UserError(reason, option="norm", value=config.norm, remedy=remedy)
