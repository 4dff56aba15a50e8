"""Task-Balanced BN (Cha et al., CVPR 2023), in closed form and without its reshapes.

In a joint batch the rows of the stream are dealt out to r* groups, and each group is normalised
together with all replayed rows; the output of a replayed row is the mean over the groups. With r*
near |stream rows| / |replayed rows| times the number of past tasks, every task has about the same
share of each group's statistics, and of φ.
"""

from functools import lru_cache
from math import gcd

import torch
from torch import Tensor, nn

from bntricks.networks.norms import scheme
from bntricks.networks.norms.row_moments import affine_map, scaled_rows, weighted_moments
from bntricks.networks.norms.variant import BatchNormVariant, Rows
from bntricks.system.devices import to_device


class TaskBalancedNorm(BatchNormVariant):
    """BatchNorm of r* groups; plain BatchNorm in the first task and without replayed rows."""

    keeps_phi = "it balances the running statistics by itself"
    needs_joint = True

    def normalise(self, x: Tensor) -> Tensor:
        members = None if self.rows is None else memberships(self.rows)
        if members is None:
            return nn.BatchNorm2d.forward(self, x)
        x = x.float() if x.dtype == torch.bfloat16 else x
        members = to_device(members, x.device).to(x.dtype)  # [N, G]
        inside = (members > 0).to(x).T
        size = inside.sum(1, keepdim=True)
        mean, var = weighted_moments(x, inside / size)
        if self.track_running_stats:
            count = size[:1] * (x.numel() // (x.shape[0] * x.shape[1]))
            self.move_phi(mean.detach().mean(0), (var.detach() * count / (count - 1)).mean(0))
        inverse = (var + self.eps).rsqrt()
        gamma, beta = affine_map(self)
        scale = gamma * (members @ inverse)
        shift = beta - gamma * (members @ (mean * inverse))
        return scaled_rows(x, scale, shift)


@lru_cache(maxsize=1)  # all layers of a pass ask the same
def memberships(rows: Rows) -> Tensor | None:
    """Return the weight of each group in each row's output, [N, r*]; None for a single group."""
    if rows.stored is None:
        return None
    replayed = rows.stored > 0
    current = int((~replayed).sum())
    groups = group_count(current, len(replayed) - current, rows.task - 1)
    if groups == 1:
        return None
    members = torch.full((len(replayed), groups), 1 / groups)
    members[~replayed] = torch.eye(groups).repeat(current // groups, 1)
    return members


def group_count(current: int, replayed: int, past_tasks: int) -> int:
    """Return r*: the largest common divisor of both counts up to their ratio times past tasks."""
    if replayed == 0:
        return 1
    both, most = gcd(current, replayed), current * past_tasks // replayed
    return max((n for n in range(1, min(both, most) + 1) if both % n == 0), default=1)


@scheme(
    "tbbn",
    title="Task-Balanced BN",
    formula="γ·(x − μ_j)/√(σ²_j + ε) + β in each of r* groups j; replayed rows: the mean over j",
    shares="a channel of every r*-th row of the stream and of all replayed rows",
    cost="one normalisation, in several operations of PyTorch",
)
def task_balanced_norm(channels: int, *, momentum: float = 0.1) -> nn.Module:
    """BatchNorm of groups in which past tasks weigh as much as the present one."""
    return TaskBalancedNorm(channels, momentum=momentum or None)
