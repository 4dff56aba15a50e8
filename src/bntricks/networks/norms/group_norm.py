"""GroupNorm (Wu & He 2018) and its extremes: LayerNorm has one group, InstanceNorm a group for each
channel. All have an affine map for each channel, so that they differ in their statistics alone."""

import torch
from torch import Tensor, nn

from bntricks.errors import UserError
from bntricks.networks.norms import scheme
from bntricks.networks.norms.row_moments import affine_map, row_moments, scaled_rows

MOST_GROUPS = 32


@scheme(
    "gn",
    title="GroupNorm",
    formula="γ·(x − μ_g)/√(σ²_g + ε) + β",
    shares="a group of channels of one image",
    cost="one normalisation",
)
def group_norm(channels: int, *, groups: int | None = None) -> nn.Module:
    """Each image by itself, its channels in groups; no φ."""
    return nn.GroupNorm(group_count(channels, groups), channels)


@scheme(
    "ln",
    title="LayerNorm",
    formula="γ·(x − μ_i)/√(σ²_i + ε) + β",
    shares="all channels of one image",
    cost="one normalisation",
)
def layer_norm(channels: int) -> nn.Module:
    """GroupNorm with one group: all of an image's channels and pixels; no φ."""
    return nn.GroupNorm(1, channels)


@scheme(
    "in",
    title="InstanceNorm",
    formula="γ·(x − μ_ic)/√(σ²_ic + ε) + β",
    shares="a channel of one image",
    cost="one normalisation, in several operations of PyTorch",
)
def instance_norm(channels: int) -> nn.Module:
    """GroupNorm with a group for each channel; no φ."""
    return InstanceNorm(channels, channels)


class InstanceNorm(nn.GroupNorm):
    """InstanceNorm in several operations: on a CPU, PyTorch's kernel is slower with many groups."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.float() if x.dtype == torch.bfloat16 else x
        mean, var = row_moments(x)
        gamma, beta = affine_map(self)
        scale = gamma * (var + self.eps).rsqrt()
        return scaled_rows(x, scale, beta - mean * scale)


def group_count(channels: int, groups: int | None) -> int:
    """Check the number of groups, by default 32, as published for the full width. Narrow layers get
    fewer by default, so that at least two channels share a group."""
    if groups is None:
        most = max(1, min(MOST_GROUPS, channels // 2))
        return max(count for count in range(1, most + 1) if channels % count == 0)
    if channels % groups:
        raise UserError(
            f"a layer of {channels} channels cannot be cut into this many equal groups: give a "
            f"divisor of {channels}",
            option="groups",
            value=groups,
        )
    return groups
