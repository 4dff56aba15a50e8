"""BatchNorm as in the paper: momentum 0.1, ε 1e-5."""

from torch import nn

from bntricks.networks.norms import scheme


@scheme(
    "bn",
    title="BatchNorm",
    formula="γ·(x − μ_B)/√(σ²_B + ε) + β",
    shares="a channel of the whole batch",
    cost="one normalisation",
)
def batch_norm(channels: int, *, momentum: float = 0.1) -> nn.Module:
    """The batch's own moments in training, their running average φ in evaluation."""
    return nn.BatchNorm2d(channels, momentum=momentum or None)
