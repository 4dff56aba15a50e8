"""Batch Renormalization (Ioffe 2017): training normalises by φ, within limits that widen slowly,
while gradients flow through the batch's own moments.

Limits and momentum are Avalanche's, which most code for continual learning uses: r up to 3 and d up
to 5, each wider by 1e-4 for every image. φ is a mean and an unbiased variance as in BatchNorm;
Avalanche averages standard deviations.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bntricks.networks.norms import scheme
from bntricks.networks.norms.row_moments import affine_map
from bntricks.networks.norms.variant import BatchNormVariant
from bntricks.norm import by_channel, mean_and_variance

R_MAX, D_MAX, PER_IMAGE = 3.0, 5.0, 1e-4


class BatchRenorm(BatchNormVariant):
    """γ·((x − μ_B)/σ_B·r + d) + β, where r = σ_B/σ_φ and d = (μ_B − μ_φ)/σ_φ are clipped and
    constant for the gradient."""

    reads_phi = True
    images_tracked: Tensor

    def __init__(self, channels: int, momentum: float | None = 0.01) -> None:
        super().__init__(channels, momentum=momentum)
        self.register_buffer("images_tracked", torch.tensor(0))

    def normalise(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            values = x.float() if x.dtype == torch.bfloat16 else x
            mean, var = mean_and_variance(by_channel(values))
            widened = PER_IMAGE * self.images_tracked.to(mean)
            r_max, d_max = (1 + widened).clamp(max=R_MAX), widened.clamp(max=D_MAX)
            sigma = (self.running_var + self.eps).sqrt()
            r = ((var + self.eps).sqrt() / sigma).clamp(1 / r_max, r_max)
            d = ((mean - self.running_mean) / sigma).clamp(-d_max, d_max)
            if self.track_running_stats:
                count = x.numel() // x.shape[1]
                self.move_phi(mean, var * (count / max(count - 1, 1)))
                self.images_tracked.add_(len(x))
        # The affine map after BatchNorm includes r and d.
        gamma, beta = affine_map(self)
        scale, shift = gamma * r, gamma * d + beta
        return F.batch_norm(x, None, None, scale, shift, training=True, eps=self.eps)


@scheme(
    "brn",
    title="Batch Renormalization",
    formula="γ·((x − μ_B)/σ_B·r + d) + β, r = [σ_B/σ_φ], d = [(μ_B − μ_φ)/σ_φ]",
    shares="a channel of the whole batch, and φ",
    cost="one normalisation, and the batch's moments once more",
)
def batch_renorm(channels: int, *, momentum: float = 0.01) -> nn.Module:
    """The batch's own moments, corrected towards φ by clipped constants r and d."""
    return BatchRenorm(channels, momentum or None)
