"""The share of new-task samples inside φ at the end of a task: the table of spec section 6.2.

The network's only BatchNorm sees the samples themselves, which are 1 if new and 0 if old: its
running mean is that share. The memory holds the reservoir's share 1/t and is kept from changing.
"""

import pytest
import torch
from torch import nn

from bntricks import Batch
from bntricks.methods import make
from bntricks.training.learner import Learner

pytestmark = pytest.mark.law

SHARES = {
    "er": lambda t: (1 + 1 / t) / 2,
    "er-balance-batch": lambda t: (2 * t - 1) / t**2,
    "er-cur+buf": lambda t: 0.474 + 0.526 / t,
    "er-cur+prev": lambda t: 0.474,
    "der++": lambda t: 0.299 + 0.701 / t,
    "er-bnt": {2: 0.53, 5: 0.23, 10: 0.12}.get,
    "der++-bnt": {2: 0.53, 5: 0.23, 10: 0.12}.get,
    "er-balance-joint-train": {2: 0.53, 5: 0.23, 10: 0.12}.get,
    "er-bnt-no-simulator": lambda t: 1 / t,
}


@pytest.mark.parametrize("t", [2, 5, 10])
@pytest.mark.parametrize("name", SHARES)
def test_the_share_of_new_samples_in_phi_is_the_specifications(name, t):
    net = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 2 * t))
    learner = Learner(net, make(name), memory=500, lr=1e-6)
    for task in range(1, t + 1):
        learner.begin([2 * task - 2, 2 * task - 1])
        labels = torch.arange(500 // t) % 2 + 2 * task - 2
        new = torch.full((len(labels), 1), float(task == t))
        learner.memory.append(Batch(new, labels, logits=torch.zeros(len(labels), 2 * t)), task=task)
    learner.memory.offered = 10**12  # so full that nothing more enters

    shares = []
    for index in range(500):
        learner.observe(torch.ones(32, 1), torch.arange(32) % 2 + 2 * t - 2)
        if index >= 100:
            shares.append(net[0].running_mean.item())
    assert sum(shares) / len(shares) == pytest.approx(SHARES[name](t), abs=0.012)
