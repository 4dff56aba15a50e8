"""GroupNorm with Weight Standardization (Qiao et al. 2019): the kernels of convolutions are
standardised before every use, which lets GroupNorm match BatchNorm according to its authors."""

import torch
from torch import Tensor, nn

from bntricks.networks.norms import scheme
from bntricks.networks.norms.group_norm import group_norm

EPS = 1e-5


class StandardisedConv2d(nn.Conv2d):
    """A convolution by (W − mean)/(std + ε), for each output channel's kernel."""

    def forward(self, x: Tensor) -> Tensor:
        return self._conv_forward(x, standardised(self.weight), self.bias)  # type: ignore[no-any-return]


def standardised(weight: Tensor) -> Tensor:
    std, mean = torch.std_mean(weight, (1, 2, 3), keepdim=True)
    return (weight - mean) / (std + EPS)


def standardise_convolutions(net: nn.Module) -> nn.Module:
    """Make every 2-d convolution of a network standardise its kernel, unless that is a single
    number. Modules, weights and names stay the same; only the class changes, as in torch's own
    parametrisations."""
    for module in net.modules():
        if type(module) is nn.Conv2d and module.weight[0].numel() > 1:
            module.__class__ = StandardisedConv2d
    return net


@scheme(
    "gn+ws",
    title="GroupNorm, Weight Standardization",
    formula="gn, after convolutions by (W − μ_W)/(σ_W + ε)",
    shares="a group of channels of one image; weights: an output channel's kernel",
    cost="one normalisation, and every kernel's moments",
    network=standardise_convolutions,
)
def group_norm_with_weight_standardisation(
    channels: int, *, groups: int | None = None
) -> nn.Module:
    """GroupNorm behind convolutions whose kernels have mean 0 and variance 1; no φ."""
    return group_norm(channels, groups=groups)
