"""The share of new-task samples inside φ at the end of a task: the table of spec section 6.2.

The network's only BatchNorm sees the samples themselves, which are 1 if new and 0 if old: its
running mean is that share. The memory holds the reservoir's share 1/t and is kept from changing.
"""

import pytest
import torch
from torch import nn

from bntricks import Batch
from bntricks.methods import make
from bntricks.recipes.phi_share import new_share
from bntricks.training.learner import Learner

pytestmark = pytest.mark.law

SETTLING, PARTS, STEPS = 80, 10, 20
WHOLE_ROWS = {2: 1 / 2, 5: 1 / 5, 10: 1 / 9}
"""Balanced but for rounding: with 32 rows of nine old tasks, 4 are taken of the new one."""
SHARES = {
    "er": lambda t: (1 + 1 / t) / 2,
    "er-balance-batch": lambda t: (2 * t - 1) / t**2,
    "er-cur+buf": lambda t: 0.474 + 0.526 / t,
    "er-cur+prev": lambda t: 0.474,
    "der++": lambda t: 0.299 + 0.701 / t,
    "er-bnt": {2: 0.53, 5: 0.23, 10: 0.12}.get,
    "der++-bnt": {2: 0.53, 5: 0.23, 10: 0.12}.get,
    "er-balance-joint-train": {2: 0.53, 5: 0.23, 10: 0.12}.get,
    "er-bnt-no-simulator": WHOLE_ROWS.get,
    "er-prev-joint": lambda t: 1 / 2,
    "er-track-memory": lambda t: 1 / t,
    "er-track-aligned": WHOLE_ROWS.get,
    "er-ace": lambda t: 0.474 + 0.526 / t,
    "er-las": lambda t: (1 + 1 / t) / 2,
    "cls-er": lambda t: 1 / t,
    "cls-er-split": lambda t: 1 / t,
    "cls-er-working-phi": lambda t: 0.263 + 0.737 / t,
    "cls-er-working": lambda t: 0.263 + 0.737 / t,
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
    for index in range(SETTLING + PARTS * STEPS):
        learner.observe(torch.ones(32, 1), torch.arange(32) % 2 + 2 * t - 2)
        if index >= SETTLING:
            shares.append(learner.predictor[0].running_mean.item())
    means = torch.tensor(shares, dtype=torch.float64).view(PARTS, STEPS).mean(dim=1)
    error = (means.std() / PARTS**0.5).item()  # of parts so long that they hardly depend
    computed = new_share(make(name), t)
    assert abs(means.mean().item() - computed) <= 3 * error + 1e-6
    assert computed == pytest.approx(SHARES[name](t), abs=0.006)  # which is given to two digits


@pytest.mark.parametrize("name", ["er", "er-bnt", "er-prev-joint", "er-track-memory", "der++"])
def test_the_share_printed_from_the_recipe_is_what_five_tasks_leave_in_phi(name):
    """The reservoir decides what is stored; then it is kept while φ settles."""
    tasks, steps = 5, 60
    net = nn.Sequential(nn.BatchNorm1d(tasks), nn.Linear(tasks, tasks))
    learner = Learner(net, make(name), memory=2000, lr=1e-6)
    for task in range(tasks):
        learner.begin([task])
        x = torch.eye(tasks)[task].expand(32, -1)  # a sample says which task it is of
        for _ in range(steps):
            learner.observe(x, torch.full((32,), task))
    learner.memory.offered = 10**12  # so full that nothing more enters
    shares = []
    for _ in range(2 * steps):
        learner.observe(x, torch.full((32,), tasks - 1))
        shares.append(net[0].running_mean[-1].item())
    printed = make(name).columns()["new_share_of_phi"]
    assert sum(shares[steps:]) / steps == pytest.approx(printed, abs=0.03)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("sgd", 1.0),
        ("joint", 0.2),
        ("lwf", 1.0),
        ("er-recalibrate", 0.2),
        ("icarl", 10_000 / 10_500),
        ("icarl-concat", 0.5),
        ("icarl-bnt", 0.2),
        ("icarl-bnt-imbalance-tracker", 0.474 + 0.526 * 0.2),
        ("fdr-bnt", 0.2),
    ],
)
def test_methods_that_store_no_new_samples_or_nothing(name, share):
    assert make(name).columns()["new_share_of_phi"] == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize("name", ["gem", "a-gem", "gss", "gss-bnt", "fdr"])
def test_a_share_that_depends_on_more_than_the_recipe_is_not_made_up(name):
    """GEM's projection and FDR's policy pass samples of their own; GSS chooses by gradients."""
    assert make(name).columns()["new_share_of_phi"] is None


@pytest.mark.parametrize("name", ["er", "er-bnt", "icarl-bnt", "gem", "sgd", "joint"])
def test_in_the_first_task_all_of_phi_is_new(name):
    assert new_share(make(name), 1) == 1.0
