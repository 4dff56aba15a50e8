"""BatchNorm, as the paper has it: momentum 0.1, ε 1e-5."""

from torch import nn

from bntricks.networks.norms import NORMS


@NORMS.named("bn")
def batch_norm(channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels)
