"""Our optimisers are PyTorch's."""

import copy
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from bntricks.networks.resnet import ResNet
from bntricks.training.optimisers import AdamW, GradientDescent

pytestmark = pytest.mark.law

TRAIN = """
import sys
from bntricks.runs.config import Config
from bntricks.methods import entries
from bntricks.runs.folder import run
entries()
print("scipy.optimize" in sys.modules)
run(Config(stream="seq-digits", method="der++-bnt", width=2, stages=2, blocks=1, epochs=1,
           optimiser="adamw"))
print("torch._dynamo" in sys.modules)
"""


@pytest.mark.parametrize("decay", [0.0, 1e-2])
def test_steps_are_those_of_sgd_to_the_bit(decay):
    ours = ResNet(3, width=4)
    theirs = copy.deepcopy(ours)
    for net in (ours, theirs):
        net.linear.weight.requires_grad_(False)
    mine = GradientDescent(ours.parameters(), 0.1, decay)
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.1, weight_decay=decay)
    x, y = torch.randn(8, 3, 8, 8), torch.arange(8) % 3
    for _ in range(3):
        for net, optimiser in ((ours, mine), (theirs, sgd)):
            optimiser.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimiser.step()
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(own, other)


@pytest.mark.parametrize("decay", [0.0, 1e-2])
def test_steps_are_those_of_adamw_to_rounding(decay):
    ours = ResNet(3, width=4)
    theirs = copy.deepcopy(ours)
    mine = AdamW(ours.parameters(), 0.003, decay)
    adamw = torch.optim.AdamW(theirs.parameters(), lr=0.003, weight_decay=decay)
    x, y = torch.randn(8, 3, 8, 8), torch.arange(8) % 3
    for step in range(6):
        if step == 3:  # from here on a rate that has changed, in an optimiser that was restored
            state = copy.deepcopy(mine.state_dict())
            mine = AdamW(ours.parameters(), 0.001, decay)
            mine.load_state_dict(state)
            adamw.param_groups[0]["lr"] = 0.001
        F.cross_entropy(theirs(x), y).backward()
        for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            own.grad = other.grad.clone()
        for optimiser in (mine, adamw):
            optimiser.step()
            optimiser.zero_grad()
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-7)


def test_a_process_that_trains_brings_neither_solver_nor_compiler(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", TRAIN], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
