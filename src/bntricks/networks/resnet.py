"""The CIFAR ResNet-18 of the paper's experiments, at any width, depth and input size.

A stem of one 3×3 convolution without max-pooling, or ImageNet's strided 7×7 convolution with
max-pooling for images above 64 pixels; stages of basic blocks, from the second on with double the
width and half the size; global average pooling; one linear layer with all C outputs from the start.
PyTorch's default initialisation, as in the experiments. `norms` has the normalisation layers.
"""

from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from bntricks.networks.norms import Norm
from bntricks.networks.norms.batch_norm import batch_norm
from bntricks.networks.registry import NETWORKS, image_channels

Stem = Literal["cifar", "imagenet"]

LARGE = 48
"""Pixels, beyond which images are large."""


class Block(nn.Module):
    """conv-norm-ReLU-conv-norm plus the input (by a 1×1 convolution if shapes differ), ReLU."""

    def __init__(self, inputs: int, width: int, stride: int, norm: Norm = batch_norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = norm(width)
        self.stride = stride
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride, bias=False), norm(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        # oneDNN's gradient of a strided 1×1 convolution writes beyond its buffer with fewer
        # channels than a vector has floats (torch 2.13): 8 or, with AVX-512 and large images, 16.
        # There, pixels are picked before the convolution.
        if self.stride > 1:
            conv, stride = self.shortcut[0], self.stride
            assert isinstance(conv, nn.Conv2d)
            if x.shape[1] < (16 if x.shape[-1] > LARGE else 8):
                x, stride = x[:, :, ::stride, ::stride], 1
            if conv.stride != (stride, stride):
                conv.stride = (stride, stride)
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """A ResNet, by default of 18 layers: 4 stages of 2 blocks, width 64. Inputs of 8×8 or more."""

    def __init__(
        self,
        classes: int,
        *,
        channels: int = 3,
        width: int = 64,
        blocks: int = 2,
        stages: int = 4,
        norm: Norm = batch_norm,
        stem: Stem = "cifar",
    ) -> None:
        super().__init__()
        if stem == "cifar":
            self.conv = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
            self.pool: nn.Module = nn.Identity()
        else:  # a sixteenth of the pixels is left
            self.conv = nn.Conv2d(channels, width, 7, 2, 3, bias=False)
            self.pool = nn.MaxPool2d(3, 2, 1)
        self.bn = norm(width)
        body: list[nn.Module] = []
        inputs = width
        for stage in range(stages):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                body.append(Block(inputs, width << stage, stride, norm))
                inputs = width << stage
        self.body = nn.Sequential(*body)
        self.linear = nn.Linear(inputs, classes)

    def features(self, x: Tensor) -> Tensor:
        """Return f(x), the pooled vector before the classifier, [B, width of the last stage]."""
        x = self.body(self.pool(F.relu(self.bn(self.conv(x)))))
        return x.mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return h(x), all C logits."""
        return self.linear(self.features(x))  # type: ignore[no-any-return]


@NETWORKS.named("resnet18")
@NETWORKS.named("resnet")
def resnet(
    shape: Sequence[int], outputs: int, *, width: int, blocks: int, stages: int, norm: Norm
) -> nn.Module:
    """The CIFAR ResNet, for images: the paper's ResNet-18, unless another size is chosen."""
    return ResNet(
        outputs,
        channels=image_channels(shape),
        width=width,
        blocks=blocks,
        stages=stages,
        norm=norm,
    )


@NETWORKS.named("resnet-imagenet")
def resnet_imagenet(
    shape: Sequence[int], outputs: int, *, width: int, blocks: int, stages: int, norm: Norm
) -> nn.Module:
    """The ResNet with ImageNet's stem, for images above 64 pixels."""
    sizes = {"width": width, "blocks": blocks, "stages": stages}
    return ResNet(outputs, channels=image_channels(shape), **sizes, norm=norm, stem="imagenet")
