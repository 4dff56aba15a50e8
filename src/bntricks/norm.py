"""BatchNorm: who moves its running statistics φ, and what φ should be.

Everything here works on any `torch.nn.Module` with BatchNorm layers of any kind (1d, 2d, 3d, Sync),
and restores the flags it found, also when the body raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from bntricks.errors import UserError
from bntricks.system.devices import doubled, forked_generators

Statistics = dict[str, "Moments"]
"""Moments of every BatchNorm layer, by the layer's name in the network."""

Phi = dict[str, dict[str, Tensor]]
"""Running mean and variance of every BatchNorm layer, by the layer's name."""


class RunningStatistics(nn.Module):
    """The base of a layer of your own that keeps running statistics φ, in place of `nn.Module`.

    The layer has buffers `running_mean` and `running_var`, [C], of its input, whose channels come
    second, and may count batches in a buffer `num_batches_tracked`. In evaluation mode it
    normalises by them; in training mode it normalises by the batch and calls `move_phi`.
    """

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    eps: float = 1e-5
    momentum: float | None = 0.1
    """Weight of a new batch in φ; None: all batches have the same weight."""
    track_running_stats: bool = True
    """Whether training moves φ. `frozen_ema` turns it off for a while."""
    reads_phi: bool = False
    """Whether training passes read φ, so that no pass that moves φ may be left out."""

    def move_phi(self, mean: Tensor, var: Tensor) -> None:
        """Move φ a step towards a batch's mean and unbiased variance, [C], unless it is frozen."""
        if self.track_running_stats:
            move_phi(self, mean, var)


NormLayer = _BatchNorm | RunningStatistics
LAYERS = (_BatchNorm, RunningStatistics)
BatchNorms = Sequence[NormLayer]
"""The BatchNorm layers of a network, looked up once for a whole step."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and unbiased variance of a layer's input, per channel, over `count` values."""

    mean: Tensor
    var: Tensor
    count: int

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets together (parallel variance), exact up to rounding."""
        n, m = self.count, other.count
        delta = other.mean - self.mean
        squares = self.var * (n - 1) + other.var * (m - 1) + delta**2 * (n * m / (n + m))
        return Moments(self.mean + delta * (m / (n + m)), squares / max(n + m - 1, 1), n + m)


def layers(net: nn.Module) -> dict[str, NormLayer]:
    """Find the layers that keep running statistics, by name: BatchNorm, and those of your own."""
    return {
        name: module
        for name, module in net.named_modules()
        if isinstance(module, LAYERS) and module._buffers.get("running_mean") is not None
    }


def batch_norms(net: nn.Module | BatchNorms) -> BatchNorms:
    """Find the BatchNorm layers of a network; layers looked up before are returned as they are."""
    return among(modules(net)) if isinstance(net, nn.Module) else net


def among(modules: Iterable[nn.Module]) -> BatchNorms:
    """Select the BatchNorm layers among these modules."""
    return [module for module in modules if isinstance(module, LAYERS)]


def modules(net: nn.Module) -> list[nn.Module]:
    """List the modules of a network faster than `net.modules()`, which also makes names."""
    found: dict[nn.Module, None] = {}
    remaining: list[nn.Module | None] = [net]
    while remaining:
        module = remaining.pop()
        if module is not None and module not in found:
            found[module] = None
            if module._modules:
                remaining += reversed(module._modules.values())
    return list(found)


def tracking_layers(net: nn.Module | BatchNorms) -> list[NormLayer]:
    """Find the layers of `layers`, without their names."""
    # Not `layer.running_mean`: `nn.Module` would look for it in three other places first.
    return [x for x in batch_norms(net) if x._buffers.get("running_mean") is not None]


@contextmanager
def frozen_ema(net: nn.Module | BatchNorms) -> Iterator[None]:
    """Normalise by batch statistics and leave φ as it is, with its batch counter (Algorithm 1,
    line 5). Unlike in evaluation mode, gradients flow through the batch statistics. A layer already
    in evaluation mode goes on using its φ."""
    thaw = freeze_ema(net)
    try:
        yield
    finally:
        thaw()


def freeze_ema(net: nn.Module | BatchNorms) -> Callable[[], None]:
    """Do what `frozen_ema` does until the function is called that this returns: for frameworks in
    which one hook comes before a forward and another one after."""
    before = [(layer, layer.track_running_stats) for layer in tracking_layers(net)]
    for layer, _ in before:
        layer.track_running_stats = False

    def thaw() -> None:
        for layer, tracking in before:
            layer.track_running_stats = tracking

    return thaw


@contextmanager
def mode(net: nn.Module, *, training: bool) -> Iterator[None]:
    """Switch the network to training or evaluation mode; restore every module's own flag after."""
    before = [(module, module.training) for module in net.modules()]
    try:
        net.train(training)
        yield
    finally:
        for module, flag in before:
            module.training = flag


@torch.no_grad()
def update_ema(net: nn.Module, x: Tensor) -> None:
    """Move φ by one forward in training mode, made for its statistics alone: φ ← update_EMA(φ, B).

    It runs under a forked global generator, so that it shifts no draw of dropout elsewhere.
    """
    if not net.training:
        raise ValueError("update_ema needs the network in training mode: call net.train() first")
    with forked_generators([x.device]):
        net(x)


def phi(net: nn.Module) -> Phi:
    """Copy φ, by layer."""
    return {
        name: {"mean": layer.running_mean.clone(), "var": layer.running_var.clone()}  # type: ignore[union-attr]
        for name, layer in layers(net).items()
    }


def drift(net: nn.Module, since: Phi) -> dict[str, float]:
    """Measure the mean shift of φ, by layer, in standard deviations at the earlier time."""
    now = phi(net)
    shifts = [
        ((now[name]["mean"] - then["mean"]).abs() / (then["var"] + 1e-5).sqrt()).mean()
        for name, then in since.items()
    ]
    # All at once, to wait for the device once.
    return dict(zip(since, torch.stack(shifts).tolist() if shifts else [], strict=True))


def skip_ema(net: nn.Module | BatchNorms) -> None:
    """Count a tracking pass that was left out because φ comes out the same without it."""
    counters = [layer._buffers.get("num_batches_tracked") for layer in tracking_layers(net)]
    if present := [counter for counter in counters if counter is not None]:
        torch._foreach_add_(present, 1)


def ema_reach(net: nn.Module | BatchNorms) -> int | None:
    """Return K: a batch tracked more than K steps before φ is read leaves no trace in float32.

    A step's weight fades as (1-m)^k; K is where it falls below 2^-60, for the slowest layer. None
    if a layer averages over all batches (`momentum=None`) or reads φ in every pass.
    """
    own = tracking_layers(net)
    momenta = [layer.momentum for layer in own]
    if not momenta:
        return 0
    if any(m is None for m in momenta) or any(getattr(x, "reads_phi", False) for x in own):
        return None
    reach = [math.ceil(60 * math.log(2) / -math.log1p(-m)) for m in momenta if m and 0 < m < 1]
    return max(reach, default=1)


@torch.no_grad()
def moments(net: nn.Module, batches: Iterable[Tensor], *, exact: bool = True) -> Statistics:
    """Measure the exact mean and variance of every BatchNorm input over all batches; φ stays.

    Each batch is normalised by its own statistics, as in training, and the moments of deeper layers
    depend on that: batches should be large or balanced. Everything but BatchNorm is in evaluation
    mode, so that dropout adds no noise. If not `exact`, each image's values are added up in
    float32, and only the images in float64: faster, and different in the seventh digit.
    """
    with (
        observed(net, exact=exact) as statistics,
        mode(net, training=False),
        frozen_ema(net),
        _plain(net),
    ):
        for layer in layers(net).values():
            layer.training = True
        for x in batches:
            net(x)
    return statistics


@contextmanager
def observed(net: nn.Module, *, exact: bool = True) -> Iterator[Statistics]:
    """Collect the moments of the inputs of every BatchNorm layer in training mode."""
    statistics: Statistics = {}

    def record(name: str, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if not layer.training:
            return
        x = inputs[0].detach()
        mean, var = mean_and_variance(doubled(by_channel(x))) if exact else _by_image(x)
        count = x.numel() // x.shape[1]
        seen = Moments(mean, var * (count / max(count - 1, 1)), count)
        statistics[name] = statistics[name].merge(seen) if name in statistics else seen

    handles = [
        layer.register_forward_pre_hook(partial(record, name))
        for name, layer in layers(net).items()
    ]
    try:
        yield statistics
    finally:
        for handle in handles:
            handle.remove()


def mean_and_variance(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and biased variance of the channels of x [..., values, C]. On a CPU,
    `torch.var_mean` and reductions in other layouts take several times as long."""
    mean = x.mean(-2)
    centred = x - mean[..., None, :]
    return mean, torch.linalg.vecdot(centred, centred, dim=-2) / x.shape[-2]


def _by_image(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance of the channels of x [N, C, ...], in float64 from those of
    each image."""
    means, variances = map(
        doubled, mean_and_variance(by_channel(x).reshape(len(x), -1, x.shape[1]))
    )
    mean = means.mean(0)
    return mean, variances.mean(0) + (means - mean).square().mean(0)


def by_channel(x: Tensor) -> Tensor:
    """Arrange a layer's input as [values, C]."""
    return x.movedim(1, -1).flatten(0, -2)


@torch.no_grad()
def follow(net: nn.Module, values: Mapping[str, tuple[Tensor, Tensor]]) -> None:
    """Move φ one step towards these means and variances, by layer, as a forward would."""
    for name, layer in layers(net).items():
        if name in values and isinstance(layer, RunningStatistics):
            layer.move_phi(*values[name])
        elif name in values:
            move_phi(layer, *values[name])


@torch.no_grad()
def move_phi(layer: NormLayer, mean: Tensor, var: Tensor) -> None:
    """Move one layer's φ a step towards a batch's mean and unbiased variance."""
    if layer.running_mean is None or layer.running_var is None:
        return
    counter = layer._buffers.get("num_batches_tracked")
    if counter is not None:
        counter.add_(1)
    weight: float | Tensor | None = layer.momentum
    if weight is None:  # the mean over all batches so far
        weight = 1.0 if counter is None else 1 / counter.to(layer.running_mean.dtype)
    layer.running_mean.lerp_(mean.to(layer.running_mean), weight)
    layer.running_var.lerp_(var.to(layer.running_var), weight)


@contextmanager
def swapped(net: nn.Module, statistics: Statistics) -> Iterator[None]:
    """Give the network other statistics for a while (paper, Figure 1 b/c); φ is restored after."""
    before = phi(net)
    try:
        set_phi(net, _as_phi(statistics))
        yield
    finally:
        set_phi(net, before)


def recalibrate(net: nn.Module, batches: Iterable[Tensor]) -> None:
    """Set φ to the population moments of these batches; give balanced data."""
    check_layers(net)
    set_moments(net, moments(net, batches))


def set_moments(net: nn.Module, statistics: Statistics) -> None:
    """Set φ to these moments, which must be finite."""
    if not statistics:
        raise UserError("no batches to recalibrate with: the iterable is empty or exhausted")
    for name, found in statistics.items():
        if not (found.mean.isfinite().all() and found.var.isfinite().all()):
            raise UserError(
                f"the inputs of layer {name!r} are not finite: look for NaN or infinity in the "
                "samples, and in the weights before it; the running statistics stay as they were"
            )
    set_phi(net, _as_phi(statistics))


def undeclared(net: nn.Module) -> str | None:
    """Name a layer with running statistics that it does not declare, if there is one."""
    for name, module in net.named_modules():
        if "running_mean" in module._buffers and not isinstance(module, (*LAYERS, _NormBase)):
            layer = f"layer {name!r} ({type(module).__name__})" if name else type(module).__name__
            return (
                f"{layer} has running statistics that it does not declare: let it inherit from "
                "bntricks.RunningStatistics"
            )
    return None


def check_layers(net: nn.Module) -> None:
    """Refuse a network that has no running statistics."""
    if layers(net):
        return
    if isinstance(net, torch.jit.ScriptModule):
        reason = "TorchScript hides its layers; give the module that it was made from"
    elif batch_norms(net):
        reason = "its BatchNorm layers keep no running statistics (track_running_stats=False)"
    else:
        reason = undeclared(net) or "it has no BatchNorm layer"
        if _maybe_fused(net):
            reason += (
                "; if that was folded into its convolutions, for inference, give the network from "
                "before"
            )
    raise UserError(f"nothing to examine in this {type(net).__name__}: {reason}")


def _maybe_fused(net: nn.Module) -> bool:
    """Whether the convolutions all have biases, and no normalisation follows them."""
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    convolutions = [module for module in modules(net) if isinstance(module, kinds)]
    others = (nn.GroupNorm, nn.LayerNorm, nn.LocalResponseNorm)
    normalised = any(isinstance(module, others) for module in modules(net))
    return bool(convolutions) and not normalised and all(c.bias is not None for c in convolutions)


@contextmanager
def _plain(net: nn.Module) -> Iterator[None]:
    """Make variants of BatchNorm, which have this flag, behave as BatchNorm for a while."""
    before = [(x, x.plain) for x in layers(net).values() if hasattr(x, "plain")]
    try:
        for layer, _ in before:
            layer.plain = True  # type: ignore[assignment]
        yield
    finally:
        for layer, plain in before:
            layer.plain = plain


def _as_phi(statistics: Statistics) -> Phi:
    return {name: {"mean": found.mean, "var": found.var} for name, found in statistics.items()}


def mixed_phi(one: Phi, other: Phi, share: float) -> Phi:
    """Mix two φ of a network: this share of the way from one to the other."""
    return {
        name: {kind: value.lerp(other[name][kind], share) for kind, value in own.items()}
        for name, own in one.items()
    }


@torch.no_grad()
def set_phi(net: nn.Module, values: Phi) -> None:
    """Copy these running statistics into the layers of these names."""
    for name, layer in layers(net).items():
        if name in values:
            for buffer, value in values[name].items():
                own: Tensor = getattr(layer, f"running_{buffer}")
                # Converted first: a device may have no float64 to copy from.
                own.copy_(value.to(own.dtype))
