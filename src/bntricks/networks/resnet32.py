"""The ResNet-32 for CIFAR of He et al. (2016), which PyCIL trains too: a stem of 16 channels, three
stages of five blocks with 16, 32 and 64, and shortcuts without parameters. It has 0.46 million
parameters, where the paper's ResNet-18 has 11 million.
"""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from bntricks.networks.norms import Norm
from bntricks.networks.registry import NETWORKS, image_channels

WIDTHS = (16, 32, 64)
BLOCKS = 5


class PaddedBlock(nn.Module):
    """conv-norm-ReLU-conv-norm plus the input, ReLU. At the start of a stage, every second pixel of
    the input is added, with zeros for missing channels (their option A)."""

    def __init__(self, inputs: int, width: int, norm: Norm) -> None:
        super().__init__()
        self.stride, self.more = (1, 0) if inputs == width else (2, width - inputs)
        self.conv1 = nn.Conv2d(inputs, width, 3, self.stride, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = norm(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.more:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return F.relu(y + x)


@NETWORKS.named("resnet32")
def resnet32(shape: Sequence[int], outputs: int, *, norm: Norm) -> nn.Module:
    """ResNet-32 for images of any size, initialised as by He et al."""
    layers: list[nn.Module] = [nn.Conv2d(image_channels(shape), WIDTHS[0], 3, 1, 1, bias=False)]
    layers += [norm(WIDTHS[0]), nn.ReLU()]
    inputs = WIDTHS[0]
    for width in WIDTHS:
        for _ in range(BLOCKS):
            layers.append(PaddedBlock(inputs, width, norm))
            inputs = width
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, outputs))
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return net
