"""AdaB²N, adaptive balance of BatchNorm (Lyu et al., NeurIPS 2023).

In a joint batch of n_k rows of each task k, a task has weight c_k = exp(w_k) + n_k in the moments,
where w is learned. φ follows at a rate η that begins near an average over all batches and ends at
1 − (1 − m)^κ, and a penalty λ·(distance of the batch's moments from φ) is added to the loss.
"""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bntricks.errors import UserError
from bntricks.networks.norms import scheme
from bntricks.networks.norms.row_moments import affine_map, scaled_rows, weighted_moments
from bntricks.networks.norms.variant import BatchNormVariant, Rows
from bntricks.system.devices import to_device

RATE = 0.1
"""m: the momentum at κ = 1."""


class AdaptiveBalanceNorm(BatchNormVariant):
    """BatchNorm with learned weights of the tasks. In the first task and without replayed rows it
    has BatchNorm's moments. φ moves at its own rate, by the biased variance, as published."""

    keeps_phi = "it moves the running statistics at a rate of its own"
    needs_joint = True
    next_rate: Tensor

    def __init__(
        self, channels: int, tasks: int, kappa: float, lambda_norm: float, *, as_published: bool
    ) -> None:
        super().__init__(channels, momentum=None)  # its φ never forgets completely
        self.task_weights = nn.Parameter(torch.zeros(tasks))
        self.register_buffer("next_rate", torch.tensor(RATE**kappa))
        self.kappa, self.lambda_norm, self.as_published = kappa, lambda_norm, as_published
        self.reads_phi = lambda_norm > 0

    def normalise(self, x: Tensor) -> Tensor:
        x = x.float() if x.dtype == torch.bfloat16 else x
        weights = self._row_weights(self.rows, x)
        mean, var = weighted_moments(x, weights)  # [1, C]
        if self.track_running_stats:
            self.move_phi(mean.detach()[0], var.detach()[0])
        if self.lambda_norm and self.rows is not None and self.rows.task > 1:
            self.penalty = self.lambda_norm * self._distance(mean[0], var[0])
        gamma, beta = affine_map(self)
        scale = gamma * (var + self.eps).rsqrt()
        return scaled_rows(x, scale, beta - mean * scale)

    def _row_weights(self, rows: Rows | None, x: Tensor) -> Tensor:
        """Return the weights, [1, N]. Absent tasks keep their part in the published code."""
        tasks = None if rows is None else tasks_of(rows, x.device)
        if tasks is None:
            return x.new_full((1, len(x)), 1 / len(x))
        own, counts, present = tasks
        if len(counts) > len(self.task_weights):
            raise UserError(
                f"this network was made for {len(self.task_weights)} tasks: make it for more",
                option="tasks",
            )
        counts = counts.to(x.dtype)
        mass = self.task_weights[: len(counts)].exp() + counts
        total = mass.sum() if self.as_published else mass[present].sum()
        return (mass / (total * counts.clamp(min=1)))[own][None]

    def _distance(self, mean: Tensor, var: Tensor) -> Tensor:
        """Measure the distance between these moments and φ, which they have already moved."""
        return F.mse_loss(mean, self.running_mean) + F.mse_loss(var, self.running_var)

    @torch.no_grad()
    def move_phi(self, mean: Tensor, var: Tensor) -> None:
        """Move φ at the layer's own rate."""
        self.running_mean.lerp_(mean, self.next_rate)
        self.running_var.lerp_(var, self.next_rate)
        self.next_rate.div_(self.next_rate + (1 - RATE) ** self.kappa)
        self.num_batches_tracked.add_(1)


@lru_cache(maxsize=1)  # all layers of a pass ask the same
def tasks_of(rows: Rows, device: torch.device) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the task of each row, from 0, the number of rows of each task, and the tasks that have
    any, on the device. None without replayed rows."""
    if rows.task < 2 or rows.stored is None or not rows.stored.any():
        return None
    own = torch.where(rows.stored > 0, rows.stored, rows.task) - 1
    counts = torch.bincount(own, minlength=rows.task)
    present = counts.nonzero()[:, 0]
    return to_device(own, device), to_device(counts, device), to_device(present, device)


@scheme(
    "adab2n",
    title="AdaB²N",
    formula="γ·(x − μ_w)/√(σ²_w + ε) + β, weights exp(w_k) + n_k; loss + λ·|(μ_w, σ²_w) − φ|²",
    shares="a channel of the whole batch, each row by its task's weight",
    cost="one normalisation, in several operations of PyTorch",
)
def adaptive_balance_norm(
    channels: int,
    *,
    tasks: int | None = None,
    kappa: float = 0.4,
    lambda_norm: float = 0.1,
    as_published: bool = False,
) -> nn.Module:
    """BatchNorm with learned weights of the tasks, and a φ that follows ever more slowly."""
    if tasks is None:
        raise UserError("adab2n has a weight for each task: say how many there are", option="tasks")
    return AdaptiveBalanceNorm(channels, tasks, kappa, lambda_norm, as_published=as_published)
