"""The CIFAR ResNet-18 of the paper's experiments, at any width, depth and input size.

Stem of one 3×3 convolution, no max-pooling; stages of basic blocks whose width doubles and whose
map halves from the second on; global average pooling; one linear layer with all C outputs from
the start. PyTorch's default initialisation, as the experiments had it.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


def classifier(net: nn.Module) -> nn.Linear:
    """The last linear layer of a network, whatever the network is."""
    linear = [module for module in net.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ValueError("this network has no linear layer, so it has no classifier")
    return linear[-1]


def features(net: nn.Module, x: Tensor) -> Tensor:
    """f(x): what the classifier of a network sees."""
    if isinstance(net, ResNet):
        return net.features(x)
    seen: list[Tensor] = []
    handle = classifier(net).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        net(x)
    finally:
        handle.remove()
    return seen[-1]


class Block(nn.Module):
    """conv-BN-ReLU-conv-BN, plus the input (through a 1×1 convolution if shapes differ), ReLU."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.stride = stride
        # oneDNN's gradient of a strided 1×1 convolution writes beyond its buffer where there are
        # fewer than 8 channels and no AVX-512 (torch 2.13): there, pixels are picked before it.
        self.pick = stride if inputs < 8 else 1
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride // self.pick, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        picked = x if self.pick == 1 else x[:, :, :: self.pick, :: self.pick]
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(picked))


class ResNet(nn.Module):
    """18 layers by default: 4 stages of 2 blocks, width 64. Inputs from 8×8 on."""

    def __init__(
        self, classes: int, *, channels: int = 3, width: int = 64, blocks: int = 2, stages: int = 4
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        body: list[nn.Module] = []
        inputs = width
        for stage in range(stages):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                body.append(Block(inputs, width << stage, stride))
                inputs = width << stage
        self.body = nn.Sequential(*body)
        self.linear = nn.Linear(inputs, classes)

    def features(self, x: Tensor) -> Tensor:
        """f(x): the pooled vector before the classifier, [B, width of the last stage]."""
        x = self.body(F.relu(self.bn(self.conv(x))))
        return x.mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """h(x): all C logits."""
        return self.linear(self.features(x))  # type: ignore[no-any-return]
