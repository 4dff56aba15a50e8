"""A straight-line twin of the learner, written from the formulas alone.

It knows nothing of recipes, losses or norm.py: its network is explicit matrix arithmetic, its
BatchNorm is the paper's Eqn. 2 and 3, its memory is a list, its gradient step is θ − γ∇L.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASSES, INPUTS, HIDDEN, LR, CAPACITY, MEMORY_BATCH = 6, 5, 8, 0.1, 12, 6


def network():
    """The network the learner trains: two BatchNorm layers."""
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Linear(INPUTS, HIDDEN),
        nn.BatchNorm1d(HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.BatchNorm1d(HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, CLASSES),
    )


class Twin:
    """Parameters θ, statistics φ, and a memory, all in plain sight."""

    def __init__(self, net, insertion, sampling):
        self.theta = {n: p.detach().clone().requires_grad_() for n, p in net.named_parameters()}
        self.phi = {n: b.clone() for n, b in net.named_buffers()}
        self.insertion, self.sampling = insertion, sampling
        self.slots, self.offered = [], 0

    def forward(self, x, track):
        """h(x) with batch statistics; each BatchNorm moves its average if `track`."""
        theta, phi = self.theta, self.phi
        for linear, norm in (("0", "1"), ("3", "4")):
            x = x @ theta[f"{linear}.weight"].T + theta[f"{linear}.bias"]
            mean, var = x.mean(0), x.var(0, correction=0)
            if track:
                n = len(x)
                phi[f"{norm}.running_mean"] = (
                    0.9 * phi[f"{norm}.running_mean"] + 0.1 * mean.detach()
                )
                phi[f"{norm}.running_var"] = 0.9 * phi[
                    f"{norm}.running_var"
                ] + 0.1 * var.detach() * n / (n - 1)
                phi[f"{norm}.num_batches_tracked"] = phi[f"{norm}.num_batches_tracked"] + 1
            x = theta[f"{norm}.weight"] * (x - mean) / (var + 1e-5).sqrt() + theta[f"{norm}.bias"]
            x = x.clamp(min=0)
        return x @ theta["6.weight"].T + theta["6.bias"]

    def ce(self, batch, track):
        """Mean cross-entropy of a batch [(x, y), ...]."""
        x, y = stacked(batch)
        return F.nll_loss(F.log_softmax(self.forward(x, track), 1), y)

    def track(self, batch):
        with torch.no_grad():
            self.forward(stacked(batch)[0], track=True)

    def descend(self, loss):
        gradients = torch.autograd.grad(loss, self.theta.values())
        for parameter, gradient in zip(self.theta.values(), gradients, strict=True):
            parameter.data -= LR * gradient

    def draw(self, before=None):
        """Up to MEMORY_BATCH stored samples, of tasks before `before`."""
        pool = [s for s in self.slots if before is None or s["task"] < before]
        chosen = torch.randperm(len(pool), generator=self.sampling) if pool else []
        return [(pool[i]["x"], pool[i]["y"]) for i in chosen[:MEMORY_BATCH]]

    def reservoir(self, batch, task, **beside):
        """Vitter's algorithm R, one sample at a time."""
        shares = torch.rand(len(batch), generator=self.insertion, dtype=torch.float64).tolist()
        for row, ((x, y), share) in enumerate(zip(batch, shares, strict=True)):
            item = {"x": x, "y": y, "task": task, **{k: v[row] for k, v in beside.items()}}
            if self.offered < CAPACITY:
                self.slots.append(item)
            else:
                slot = int(share * (self.offered + 1))
                if slot < CAPACITY:
                    self.slots[slot] = item
            self.offered += 1


def stacked(batch):
    return torch.stack([x for x, _ in batch]), torch.stack([y for _, y in batch])


def balanced(current, memory, task):
    """Spec A1, count-aware, for tasks of two classes each: (t-1)·2 old classes."""
    if not memory or task == 1:
        return current + memory
    new = sum(int(y) >= 2 * (task - 1) for _, y in memory)
    k = int((len(memory) - new) / (task - 1) + 0.5) - new
    return memory + current[: min(max(k, 0), len(current))]


def batches(task, steps=3, size=7):
    """The same little stream for learner and twin."""
    generator = torch.Generator().manual_seed(task)
    for _ in range(steps):
        y = torch.randint(2, (size,), generator=generator) + 2 * (task - 1)
        x = torch.randn(size, INPUTS, generator=generator) + y[:, None] / 3
        yield x, y
