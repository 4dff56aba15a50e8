"""A ResNet for fast evaluation: every BatchNorm is folded into the convolution before it.

For a fixed φ = (μ, σ²), BN(w ∗ x) = (γ/σ)(w ∗ x − μ) + β is a convolution too. On a CPU all of them
then work in oneDNN's own layout, so that no layer rearranges the output of another.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from bntricks.networks.norms.variant import BatchNormVariant
from bntricks.networks.resnet import Block, ResNet

FOLD_FROM = 64
"""The fewest images worth folding for, which takes as long as scoring two or three."""


def folded(net: nn.Module, images: int) -> nn.Module:
    """Fold this network as it is now, to score `images`. Other networks, other devices and a
    handful of images get the network itself."""
    if images < FOLD_FROM or not _can_fold(net):
        return net
    assert isinstance(net, ResNet)
    return Folded(net)


class Folded(ResNet):
    """A network in evaluation mode, with the weights and φ it has now."""

    def __init__(self, net: ResNet) -> None:
        nn.Module.__init__(self)
        self.linear = net.linear
        self.stem = Joined(net.conv, net.bn)
        self.pooled = isinstance(net.pool, nn.MaxPool2d)
        self.blocks = [
            (
                Joined(block.conv1, block.bn1),
                Joined(block.conv2, block.bn2),
                Joined(*block.shortcut, stride=block.stride)
                if len(block.shortcut)
                else nn.Identity(),
            )
            for block in net.body
            if isinstance(block, Block)
        ]

    def features(self, x: Tensor) -> Tensor:
        x = self.stem(x.contiguous().to_mkldnn()).relu_()
        if self.pooled:
            x = F.max_pool2d(x, 3, 2, 1)
        for first, second, shortcut in self.blocks:
            x = second(first(x).relu_()).add_(shortcut(x)).relu_()
        return x.to_dense().mean((2, 3))


class Joined:
    """A convolution and the BatchNorm after it, as one convolution."""

    def __init__(self, conv: nn.Conv2d, bn: nn.Module, *, stride: int = 0) -> None:
        assert isinstance(bn, nn.BatchNorm2d)
        assert bn.running_mean is not None
        assert bn.running_var is not None
        weight, bias = fuse_conv_bn_weights(
            conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        self.weight = weight.detach().contiguous().to_mkldnn()
        self.bias = bias.detach().to_mkldnn()
        self.stride, self.padding = stride or conv.stride, conv.padding

    def __call__(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding)


def _can_fold(net: nn.Module) -> bool:
    return (
        type(net) is ResNet
        and net.linear.weight.device.type == "cpu"
        and net.linear.weight.dtype == torch.float32
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and all(map(_keeps_statistics, _norms(net)))
    )


def _norms(net: ResNet) -> Iterator[nn.Module]:
    """Yield the network's normalisation layers, of any kind."""
    yield net.bn
    for block in net.body:
        assert isinstance(block, Block)
        yield from (block.bn1, block.bn2, *list(block.shortcut)[1:])


def _keeps_statistics(layer: nn.Module) -> bool:
    """Whether a layer is evaluated as BatchNorm is."""
    known = type(layer) is nn.BatchNorm2d or isinstance(layer, BatchNormVariant)
    return known and layer.running_mean is not None
