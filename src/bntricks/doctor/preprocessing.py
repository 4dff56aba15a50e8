"""Are images prepared as in training? A change of each input channel, x·scale + shift, that
explains φ of the first layer: with the wrong mean or standard deviation of pixels there is one.

What comes before that layer is affine in nearly every network, a convolution. Its output is then a
weighted sum of its outputs for each channel alone and for constant channels, and so are its mean
and, quadratically, its variance; the weights are scale and shift.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bntricks.doctor.accuracy import Counterfactual
from bntricks.doctor.layers import Layer, distance
from bntricks.doctor.verdict import FAR, Verdict
from bntricks.norm import Moments, NormLayer, by_channel, layers, mode, moments
from bntricks.system.devices import doubled

Vector = NDArray[np.float64]
Normalisation = tuple[Sequence[float], Sequence[float]]
"""Mean and standard deviation of pixels in [0, 1], by channel."""

KNOWN: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CIFAR-10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "pixels from -1 to 1": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "pixels from 0 to 1": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "MNIST": ((0.1307,), (0.3081,)),
    "Fashion-MNIST": ((0.2860,), (0.3530,)),
    "grey pixels from -1 to 1": ((0.5,), (0.5,)),
    "grey pixels from 0 to 1": ((0.0,), (1.0,)),
}
NEAR = 0.15
"""A known normalisation is named if under it φ is further away than under the one that fits best by
at most this."""
EXPLAINED = 0.5
"""A change explains φ of the first layer if it leaves at most this share of its distance, and of
what mixtures of the groups leave."""
NEARER = 0.75
"""A later layer comes nearer if less than this share of its distance is left."""
ALIKE = 0.1
"""The weight of a difference between the channels' own changes, of one between moments."""
MOST_CHANNELS = 4
"""Of an image; other inputs are not examined."""
MOST_IMAGES, MOST_PIXELS = 512, 64 * 224 * 224
VALUES = 1 << 23
"""Of responses at once."""
AFFINE = 1e-3
"""The most that responses may differ from their weighted sum, in their own standard deviation."""


@dataclass(frozen=True, slots=True)
class InputChange:
    """A change of each input channel, x·scale + shift, under which φ of the first layer fits."""

    scale: tuple[float, ...]
    shift: tuple[float, ...]
    distance: float = 0.0
    """Of φ of the first layer from these samples, as they are and changed."""
    changed_distance: float = 0.0
    mean: tuple[float, ...] | None = None
    """The mean and the standard deviation that pixels should be normalised by, if it is known how
    they were."""
    std: tuple[float, ...] | None = None
    known: str | None = None
    """The name of that normalisation, if it has one."""

    def __call__(self, x: Tensor) -> Tensor:
        """Change a batch of inputs."""
        scale, shift = (x.new_tensor(part).view(1, -1, 1, 1) for part in (self.scale, self.shift))
        return x * scale + shift

    def verdict(self, first: Layer, as_is: Counterfactual, changed: Counterfactual) -> Verdict:
        """Blame the input for what φ of this layer seems to cost."""
        gain = changed.all_difference
        if self.mean is None or self.std is None:
            fits = f"x·scale + shift, scale {listed(self.scale)}, shift {listed(self.shift)}"
        else:
            named = f" (as for {self.known})" if self.known else ""
            fits = f"mean {listed(self.mean)} and standard deviation {listed(self.std)}{named}"
        return Verdict(
            "input",
            "The images seem to be prepared otherwise than in training, which alone costs "
            f"{gain.points:.1f} points over all classes (95% interval {gain.interval}); φ fits "
            f"{fits}.",
            (
                f"φ of the first layer, {first.name}, is {self.distance:.2f} standard deviations "
                f"from these images, and {self.changed_distance:.2f} with that change, which takes "
                f"accuracy over all classes from {as_is.all:.1f}% to {changed.all:.1f}%; no "
                "mixture of the groups explains it as well.",
            ),
            "Diagnose again with the mean and the standard deviation of its training, and do not "
            "recalibrate before: statistics of a wrong input are wrong for the right one. If they "
            "are right, these images are brighter, darker or of other contrast than those of "
            "training.",
        )


def listed(values: Sequence[float]) -> str:
    return " ".join(f"{round(value, 3) + 0.0:.3g}" for value in values)


def explaining_change(
    net: nn.Module,
    measured: Sequence[Layer],
    batches: Callable[[], Iterable[Tensor]],
    normalised: Normalisation | None,
) -> InputChange | None:
    """Find a change of the input that explains φ of the first layer far better than any mixture of
    the groups does. Most later layers are near then, or come nearer: otherwise it is φ that is
    sick, all over the network."""
    first = measured[0]
    layer = layers(net)[first.name]
    responses = None if first.distance <= FAR else _responses(net, layer, batches())
    if responses is None or len(responses[0]) <= responses[0].shape[1] // 2:
        return None
    change = _fit(*responses, layer)
    if normalised is not None:
        known = [
            _between(normalised, name)
            for name, (m, _) in KNOWN.items()
            if len(m) == len(change.scale)
        ]
        nearest = min(known, key=lambda k: _distance(*responses, layer, k), default=change)
        best = _distance(*responses, layer, change)
        change = _with_normalisation(change, normalised)
        if _distance(*responses, layer, nearest) <= best + NEAR:
            change = nearest
    found = moments(net, map(change, batches()))
    left, *deeper = (distance(layers(net)[name], own) for name, own in found.items())
    before = [each.distance for each in measured[1:]]
    stay = sum(d > max(FAR, NEARER * b) for d, b in zip(deeper, before, strict=True))
    # Of so few numbers, some fit by chance.
    fair = sqrt(first.channels / (first.channels - len(change.scale)))
    explained = fair * left <= EXPLAINED * min(first.distance, first.unexplained)
    if not explained or 2 * stay > len(deeper):
        return None
    return replace(change, distance=first.distance, changed_distance=left)


def _between(given: Normalisation, name: str) -> InputChange:
    """Return the change from inputs that were normalised as given to this known normalisation."""
    rows = list(zip(*given, *KNOWN[name], strict=True))
    scale = tuple(std / right for _, std, _, right in rows)
    shift = tuple((mean - true) / right for mean, _, true, right in rows)
    return InputChange(scale, shift, mean=KNOWN[name][0], std=KNOWN[name][1], known=name)


def _with_normalisation(change: InputChange, given: Normalisation) -> InputChange:
    """Name the normalisation that this change makes of the given one."""
    rows = list(zip(*given, change.scale, change.shift, strict=True))
    mean = tuple(m - shift * s / scale for m, s, scale, shift in rows)
    return replace(change, mean=mean, std=tuple(s / scale for _, s, scale, _ in rows))


def _distance(mean: Vector, covariance: Vector, layer: NormLayer, change: InputChange) -> float:
    """Compute how far φ is from the layer's moments under this change of the input."""
    weights = np.array([*change.scale, *change.shift, 1.0])
    var = torch.from_numpy(np.einsum("jab,a,b->j", covariance, weights, weights).clip(0))
    return distance(layer, Moments(torch.from_numpy(mean @ weights), var, 0))


def _responses(
    net: nn.Module, layer: NormLayer, batches: Iterable[Tensor]
) -> tuple[Vector, Vector] | None:
    """Return the mean [J, K] and covariance [J, K, K] of the K responses of the layer's J channels:
    to each image channel alone, to a constant in each, and to nothing."""
    count, images = 0, 0
    total: Tensor | None = None
    for x in batches:
        if x.dim() != 4 or x.shape[1] > MOST_CHANNELS or not x.is_floating_point():
            return None
        if not images and not _is_affine(net, layer, x[:2]):
            return None
        most = min(MOST_IMAGES, max(1, MOST_PIXELS // x[0, 0].numel()))
        x = x[: most - images]
        images += len(x)
        per_image = by_channel(_input_of(net, layer, x[:1])).numel() * (2 * x.shape[1] + 1)
        for part in torch.split(x, max(1, VALUES // per_image)):
            z = doubled(torch.stack(_parts(net, layer, part), -1)).transpose(0, 1)
            z = torch.cat([z, torch.ones_like(z[..., :1])], -1)  # [J, values, K + 1]
            squares = z.mT @ z
            total = squares if total is None else total + squares
            count += z.shape[1]
        if images >= most:
            break
    if total is None:
        return None
    mean = total[:, :-1, -1] / count
    covariance = total[:, :-1, :-1] / count - mean[:, :, None] * mean[:, None, :]
    return mean.cpu().numpy(), covariance.cpu().numpy()


def _parts(net: nn.Module, layer: NormLayer, x: Tensor) -> list[Tensor]:
    """Return the responses of the layer's input, [values, J] each."""
    nothing = _input_of(net, layer, torch.zeros_like(x[:1]))
    channels = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)[:, None, :, None, None]
    alone = [_input_of(net, layer, x * only) - nothing for only in channels]
    constant = [_input_of(net, layer, torch.ones_like(x[:1]) * only) - nothing for only in channels]
    return [by_channel(part.expand_as(alone[0])) for part in (*alone, *constant, nothing)]


def _is_affine(net: nn.Module, layer: NormLayer, x: Tensor) -> bool:
    weights = [0.5 + k for k in range(2 * x.shape[1])]
    half = len(weights) // 2
    change = InputChange(tuple(weights[:half]), tuple(weights[half:]))
    there = by_channel(_input_of(net, layer, change(x)))
    expected = sum(w * part for w, part in zip([*weights, 1.0], _parts(net, layer, x), strict=True))
    return bool((there - expected).abs().max() <= AFFINE * there.std().clamp(min=1e-12))


class _Seen(Exception):
    """The input of a layer, so that the rest of a pass is left out."""


@torch.no_grad()
def _input_of(net: nn.Module, layer: NormLayer, x: Tensor) -> Tensor:
    def stop(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        raise _Seen(inputs[0])

    handle = layer.register_forward_pre_hook(stop)
    try:
        with mode(net, training=False):
            net(x)
    except _Seen as seen:
        return seen.args[0]  # type: ignore[no-any-return]
    finally:
        handle.remove()
    raise AssertionError("the layer is in use")


def _fit(mean: Vector, covariance: Vector, layer: NormLayer) -> InputChange:
    from scipy.optimize import least_squares

    channels, eps = mean.shape[1] // 2, layer.eps
    goal, spread = (b.cpu().double().numpy() for b in (layer.running_mean, layer.running_var))  # type: ignore[union-attr]
    spread = spread + eps

    def weights(p: Vector) -> Vector:
        return np.concatenate([np.exp(p[:channels]), p[channels:], [1.0]])

    def residuals(p: Vector) -> Vector:
        w = weights(p)
        shift = (mean @ w - goal) / np.sqrt(spread)
        ratio = (np.einsum("jab,a,b->j", covariance, w, w).clip(0) + eps) / spread
        # Channels are usually alike, which decides where φ leaves it open.
        unlike = [ALIKE * (part - part.mean()) for part in np.split(p, 2)]
        return np.concatenate([shift, np.log(ratio) / np.sqrt(2), *unlike])

    as_is = np.einsum("jaa->j", covariance[:, :channels, :channels]) + eps
    start = np.full(channels, 0.5 * np.median(np.log(spread / as_is)))
    known = goal - mean[:, :channels] @ np.exp(start) - mean[:, -1]
    scaled = mean[:, channels:-1] / np.sqrt(spread)[:, None]
    shift = np.linalg.lstsq(scaled, known / np.sqrt(spread), rcond=1e-3)[0]
    found = weights(least_squares(residuals, np.concatenate([start, shift])).x)
    return InputChange(tuple(found[:channels].tolist()), tuple(found[channels:-1].tolist()))
