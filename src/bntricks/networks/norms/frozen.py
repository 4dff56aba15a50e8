"""BatchNorm that is frozen after the first task, as in FACIL and LUCIR: φ stays as it is then and
normalises every later pass; the affine map goes on learning."""

import torch.nn.functional as F
from torch import Tensor, nn

from bntricks.networks.norms import scheme
from bntricks.networks.norms.variant import BatchNormVariant


class FrozenNorm(BatchNormVariant):
    """BatchNorm in the first task; from the second on, normalisation by the first task's φ."""

    reads_phi = True
    keeps_phi = "its running statistics stay as they are after the first task"

    def normalise(self, x: Tensor) -> Tensor:
        if self.rows is None or self.rows.task < 2:
            return nn.BatchNorm2d.forward(self, x)
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


@scheme(
    "frozen",
    title="BatchNorm, frozen after the first task",
    formula="task 1: bn; then γ·(x − μ_φ)/√(σ²_φ + ε) + β",
    shares="a channel of the first task's batches",
    cost="one normalisation",
)
def frozen(channels: int, *, momentum: float = 0.1) -> nn.Module:
    """BatchNorm in the first task, whose φ then normalises training and evaluation."""
    return FrozenNorm(channels, momentum=momentum or None)
