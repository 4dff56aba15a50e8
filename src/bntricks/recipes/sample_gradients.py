"""Cosines between the gradients of single samples, for GSS, without holding 11M-long vectors.

One forward and one backward pass in evaluation mode, where samples do not meet in BatchNorm, keep
every layer's input a and output gradient d. A sample's weight gradient is the sum of d ⊗ a over
positions (the pixels of a convolution's output). Inner products of such sums are taken layer by
layer: of the sums where positions are many and weights few, through Gram matrices between positions
otherwise. Assumes that a parameter is used by its own layer only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from bntricks import norm
from bntricks.networks.norms.variant import BatchNormVariant
from bntricks.system.devices import doubled

KnownLayer = nn.Linear | _ConvNd | _BatchNorm
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
LAYERS = (nn.Linear, *CONVOLUTIONS, *NORMS)

BLOCK = 1 << 22
"""The numbers in a block of samples, 16 MB: larger blocks page-fault."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradient of every sample's own loss, in factors, and perhaps their sum."""

    parts: dict[Tensor, GradientPart]
    total: dict[Tensor, Tensor]


def per_sample(net: nn.Module, x: Tensor, y: Tensor, *, total: bool = False) -> Gradients:
    """Compute the gradient of the cross-entropy of each (x[i], y[i]) alone, over all parameters
    that require it.

    `total` adds their sum, which `batch_cosines` needs of the new samples. The network's flags, φ
    and `.grad` stay as they are. Of layers with such parameters, all must be of `LAYERS`.
    """
    names = _trainable_layers(net)
    calls: list[tuple[KnownLayer, Tensor, GradientEdge]] = []

    def record(layer: KnownLayer, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if len(inputs[0]) != len(x):
            raise ValueError(f"{names[layer]} sees {len(inputs[0])} rows for {len(x)} samples")
        # The edge, not the tensor: an in-place ReLU behind the layer would move the tensor on.
        calls.append((layer, inputs[0].detach(), get_gradient_edge(output)))

    handles = [layer.register_forward_hook(record) for layer in names]
    try:
        with norm.mode(net, training=False), torch.enable_grad():
            loss = F.cross_entropy(net(x), y, reduction="sum")
    finally:
        for handle in handles:
            handle.remove()
    parameters = [p for p in net.parameters() if p.requires_grad] if total else []
    edges = [*(edge for *_, edge in calls), *map(get_gradient_edge, parameters)]
    gradients = torch.autograd.grad(loss, edges, allow_unused=True)
    parts: dict[Tensor, GradientPart] = {}
    for (layer, a, _), d in zip(calls, gradients, strict=False):
        for parameter, part in _parts(layer, a, d) if d is not None else ():
            parts[parameter] = parts[parameter] + part if parameter in parts else part
    sums = zip(parameters, gradients[len(calls) :], strict=True)
    totals: dict[Tensor, Tensor] = {parameter: g for parameter, g in sums if g is not None}
    if total and totals.keys() != parts.keys():
        raise ValueError("the network uses a parameter outside its own layer: call the layer")
    return Gradients(parts, totals)


@torch.no_grad()
def batch_cosines(new: Gradients, references: Gradients) -> Tensor:
    """Compute cos(g, G_j), [R], of the new samples' mean gradient g and every reference."""
    _require_same_parameters(new, references)
    if not new.total:
        raise ValueError("the new samples lack their total: use per_sample(..., total=True)")
    # The sum's direction is the mean's.
    return _cosines(_batch_products(new.total[p], part) for p, part in references.parts.items())


@torch.no_grad()
def cosines(new: Gradients, references: Gradients) -> Tensor:
    """Compute cos(g_i, G_j) of every new sample's gradient with every reference's, [A, R]."""
    _require_same_parameters(new, references)
    return _cosines(_products(new.parts[p], part) for p, part in references.parts.items())


Factors = tuple[Tensor, Tensor]
"""a [b, P, K] and d [b, P, O] of b samples, whose gradients [O, K] are Σ_p d[i, p] ⊗ a[i, p]."""

Products = tuple[Tensor, Tensor, Tensor]
"""One parameter's share of ⟨g, G⟩, |g|² and |G|², in shapes that broadcast."""


@dataclass(frozen=True, slots=True)
class GradientPart:
    """One parameter's part of the gradients of B samples; a is unfolded on demand."""

    x: Tensor  # a itself, or the input of the convolution
    d: Tensor
    conv: _ConvNd | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The sizes B, P, K and O."""
        size, positions, outputs = self.d.shape
        inputs = self.x.shape[2] if self.conv is None else self.conv.weight[0].numel()
        return size, positions, inputs, outputs

    def factors(self, rows: slice = slice(None)) -> Factors:
        x = self.x[rows]
        return x if self.conv is None else _unfold(self.conv, x), self.d[rows]

    def __add__(self, other: GradientPart) -> GradientPart:
        """Join the two uses of a parameter that the forward pass used twice."""
        (a, d), (b, e) = self.factors(), other.factors()
        return GradientPart(torch.cat([a, b], 1), torch.cat([d, e], 1))

    def blocks(self, *, summed: bool = False) -> Iterator[Factors]:
        """Yield factors of some samples at a time; `summed` ones are the gradient and 1."""
        size, positions, inputs, outputs = self.shape
        step = max(1, BLOCK // (positions * inputs + summed * inputs * outputs))
        for start in range(0, size, step):
            a, d = self.factors(slice(start, start + step))
            yield _vectors((d.mT @ a).flatten(1)) if summed else (a, d)


def _batch_products(g: Tensor, references: GradientPart) -> Products:
    _, positions, inputs, outputs = references.shape
    summed = inputs * outputs <= positions * (inputs + outputs)
    blocks = [(_along(a, d, g), _squares(a, d)) for a, d in references.blocks(summed=summed)]
    dots, squares = map(torch.cat, zip(*blocks, strict=True))
    return dots, g.square().sum(), squares


def _products(new: GradientPart, references: GradientPart) -> Products:
    (size, positions, inputs, outputs), (count, reference_positions, _, _) = (
        new.shape,
        references.shape,
    )
    rows, columns = size * positions, count * reference_positions
    sums = (rows + columns + size * count) * inputs * outputs
    summed = sums <= rows * columns * (inputs + outputs)
    reference_blocks = list(references.blocks(summed=summed))
    blocks = [
        (torch.cat([_dots(a, d, b, e) for b, e in reference_blocks], 1), _squares(a, d))
        for a, d in new.blocks(summed=summed)
    ]
    dots, squares = map(torch.cat, zip(*blocks, strict=True))
    return dots, squares[:, None], torch.cat([_squares(b, e) for b, e in reference_blocks])


def _along(a: Tensor, d: Tensor, g: Tensor) -> Tensor:
    """Compute ⟨Σ_p d_p ⊗ a_p, g⟩ = Σ_p ⟨d_p, g a_p⟩ for every sample, [b]."""
    g = g.movedim(1, -1) if g.dim() > 2 else g  # as _unfold has it
    return ((a @ g.reshape(d.shape[2], a.shape[2]).mT) * d).sum((1, 2))


def _squares(a: Tensor, d: Tensor) -> Tensor:
    """Compute |Σ_p d_p ⊗ a_p|² for every sample, [b]."""
    if a.shape[1] == 1:  # matrix products of long vectors are slow and lose digits
        return a.square().sum((1, 2)) * d.square().sum((1, 2))
    return ((a @ a.mT) * (d @ d.mT)).sum((1, 2))


def _dots(a: Tensor, d: Tensor, b: Tensor, e: Tensor) -> Tensor:
    """Compute ⟨Σ_p d_p ⊗ a_p, Σ_q e_q ⊗ b_q⟩ = Σ_pq ⟨a_p, b_q⟩⟨d_p, e_q⟩ for every pair, [A, R]."""
    pairs = (a.flatten(0, 1) @ b.flatten(0, 1).mT) * (d.flatten(0, 1) @ e.flatten(0, 1).mT)
    return pairs.view(*a.shape[:2], *b.shape[:2]).sum((1, 3))


def _cosines(products: Iterable[Products]) -> Tensor:
    # Layers are added in float64: float32 would lose the small ones beside the large.
    dots, new_squares, reference_squares = (
        doubled(torch.stack(terms)).sum(0) for terms in zip(*products, strict=True)
    )
    lengths = (new_squares.clamp_min(0) * reference_squares.clamp_min(0)).sqrt()
    return (dots / lengths).masked_fill(lengths == 0, 0).clamp(-1, 1).float()


def _require_same_parameters(new: Gradients, references: Gradients) -> None:
    if new.parts.keys() != references.parts.keys():
        raise ValueError("these are gradients of different parameters: take both from one network")


def _trainable_layers(net: nn.Module) -> dict[KnownLayer, str]:
    trainable: dict[KnownLayer, str] = {}
    for name, layer in net.named_modules():
        named = f"layer {name or 'at the top'} ({type(layer).__name__})"
        if isinstance(layer, _BatchNorm) and layer.running_mean is None:
            raise ValueError(f"{named} keeps no running statistics: samples share their gradients")
        if not any(parameter.requires_grad for parameter in layer.parameters(recurse=False)):
            continue
        variant = isinstance(layer, BatchNormVariant)  # in evaluation mode it is BatchNorm
        if type(layer) not in LAYERS and not variant:  # a subclass may use its weight otherwise
            kinds = ", ".join(kind.__name__ for kind in LAYERS)
            raise ValueError(f"{named} is none of {kinds}: freeze its parameters or replace it")
        if isinstance(layer, _ConvNd) and layer.groups > 1:
            raise ValueError(f"{named} has groups={layer.groups}: freeze it or use groups=1")
        trainable[layer] = named
    if not trainable:
        raise ValueError("no parameter of the network requires a gradient: unfreeze some")
    return trainable


def _parts(layer: KnownLayer, x: Tensor, d: Tensor) -> Iterator[tuple[Tensor, GradientPart]]:
    """Yield the part of each trainable parameter in one call of a layer."""
    if isinstance(layer, nn.Linear):
        x, d = (t.reshape(len(t), -1, t.shape[-1]) for t in (x, d))
    else:
        d = _positions(d)
    if layer.weight is not None and layer.weight.requires_grad:
        if isinstance(layer, _BatchNorm):
            normalised = F.batch_norm(x, layer.running_mean, layer.running_var, eps=layer.eps)
            yield layer.weight, GradientPart(*_vectors((d * _positions(normalised)).sum(1)))
        else:
            yield layer.weight, GradientPart(x, d, layer if isinstance(layer, _ConvNd) else None)
    if layer.bias is not None and layer.bias.requires_grad:
        yield layer.bias, GradientPart(*_vectors(d.sum(1)))


def _vectors(g: Tensor) -> Factors:
    """Write gradients [b, n] as factors of one position."""
    return g[:, None], g.new_ones(len(g), 1, 1)


def _positions(x: Tensor) -> Tensor:
    """Arrange [B, C, *space] as [B, P, C], a view if x is in channels_last."""
    return x.movedim(1, -1).reshape(len(x), -1, x.shape[1])


def _unfold(conv: _ConvNd, x: Tensor) -> Tensor:
    """Return the inputs of each output position, [B, P, K]; K runs over (*kernel, channel)."""
    mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
    x = F.pad(x, conv._reversed_padding_repeated_twice, mode=mode).movedim(1, -1).contiguous()
    geometry = zip(conv.kernel_size, conv.stride, conv.dilation, strict=True)
    for axis, (kernel, stride, dilation) in enumerate(geometry, start=1):
        x = x.unfold(axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
    space = len(conv.kernel_size)
    # Channels go last, so that the copy moves whole pixels.
    return x.movedim(space + 1, -1).flatten(1, space).flatten(2)
