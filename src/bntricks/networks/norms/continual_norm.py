"""Continual Normalization (Pham, Liu & Hoi, ICLR 2022): GroupNorm without an affine map, then
BatchNorm, whose φ holds moments of GroupNorm's outputs."""

from torch import nn

from bntricks.networks.norms import scheme
from bntricks.networks.norms.group_norm import group_count


@scheme(
    "cn",
    title="Continual Normalization",
    formula="BN(z), z = (x − μ_g)/√(σ²_g + ε)",
    shares="a group of channels of one image; then a channel of the whole batch",
    cost="two normalisations",
)
def continual_norm(channels: int, *, groups: int | None = None, momentum: float = 0.1) -> nn.Module:
    """GroupNorm of each image, then BatchNorm; φ is BatchNorm's."""
    return nn.Sequential(
        nn.GroupNorm(group_count(channels, groups), channels, affine=False),
        nn.BatchNorm2d(channels, momentum=momentum or None),
    )
