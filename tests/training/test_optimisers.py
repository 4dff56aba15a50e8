"""Our optimisers are PyTorch's."""

import copy
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from bntricks.errors import UserError
from bntricks.networks.resnet import ResNet
from bntricks.training.optimisers import (
    OPTIMISERS,
    Adam,
    adamw,
    clip,
    find_optimiser,
)

pytestmark = pytest.mark.law

TRAIN = """
import sys
from bntricks.runs.config import Config
from bntricks.methods import entries
from bntricks.runs.folder import run
entries()
print("scipy.optimize" in sys.modules)
run(Config(stream="seq-digits", method="der++-bnt", width=2, stages=2, blocks=1, epochs=1,
           images_per_class=8, optimiser="adam", clip=1.0))
print("torch._dynamo" in sys.modules)
"""


@pytest.mark.parametrize("momentum", [None, 0.9, 0.5])
@pytest.mark.parametrize("decay", [0.0, 1e-2])
def test_steps_are_those_of_sgd_to_the_bit(decay, momentum):
    ours = ResNet(3, width=4)
    theirs = copy.deepcopy(ours)
    for net in (ours, theirs):
        net.linear.weight.requires_grad_(False)
    make = find_optimiser("sgd") if momentum is None else find_optimiser("sgdm", momentum)
    mine = make(ours.parameters(), 0.1, decay)
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.1, weight_decay=decay, momentum=momentum or 0.0)
    x, y = torch.randn(8, 3, 8, 8), torch.arange(8) % 3
    for step in range(4):
        if step == 2:  # from here on in an optimiser that was restored
            state = copy.deepcopy(mine.state_dict())
            mine = make(ours.parameters(), 0.1, decay)
            mine.load_state_dict(state)
        for net, optimiser in ((ours, mine), (theirs, sgd)):
            optimiser.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimiser.step()
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(own, other)


def test_the_momentum_is_nine_tenths_unless_chosen():
    net = ResNet(3, width=2)
    assert find_optimiser("sgdm")(net.parameters(), 0.1, 0.0).momentum == 0.9
    with pytest.raises(UserError, match=r"sgd_momentum 0.5: adam has no momentum .* choose sgdm"):
        find_optimiser("adam", 0.5)


@pytest.mark.parametrize(
    ("make", "reference"), [(Adam, torch.optim.Adam), (adamw, torch.optim.AdamW)]
)
@pytest.mark.parametrize("decay", [0.0, 1e-1])
def test_steps_are_those_of_adam_to_rounding(make, reference, decay):
    ours = ResNet(3, width=4)
    theirs = copy.deepcopy(ours)
    mine = make(ours.parameters(), 0.003, decay)
    adam = reference(theirs.parameters(), lr=0.003, weight_decay=decay)
    x, y = torch.randn(8, 3, 8, 8), torch.arange(8) % 3
    for step in range(6):
        if step == 3:  # from here on a rate that has changed, in an optimiser that was restored
            state = copy.deepcopy(mine.state_dict())
            mine = make(ours.parameters(), 0.001, decay)
            mine.load_state_dict(state)
            adam.param_groups[0]["lr"] = 0.001
        F.cross_entropy(theirs(x), y).backward()
        for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            own.grad = other.grad.clone()
        for optimiser in (mine, adam):
            optimiser.step()
            optimiser.zero_grad()
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("largest", [1e-3, 1e3])
def test_a_gradient_is_clipped_as_torch_clips_it(largest):
    net = ResNet(3, width=4)
    F.cross_entropy(net(torch.randn(8, 3, 8, 8)), torch.arange(8) % 3).backward()
    net.linear.bias.grad = None
    before = [each.grad.clone() for each in net.parameters() if each.grad is not None]
    clip(net.parameters(), largest)
    ours = [each.grad.clone() for each in net.parameters() if each.grad is not None]
    for parameter, gradient in zip(net.parameters(), before, strict=False):
        parameter.grad = gradient
    torch.nn.utils.clip_grad_norm_(net.parameters(), largest)
    for own, other in zip(ours, net.parameters(), strict=False):
        torch.testing.assert_close(own, other.grad, rtol=1e-6, atol=0)
    norm = torch.stack([each.norm() for each in ours]).norm()
    assert norm <= 1.0001 * largest


def test_the_optimisers_are_listed():
    assert {"sgd", "sgdm", "adam", "adamw"} <= set(OPTIMISERS.entries())


def test_a_process_that_trains_brings_neither_solver_nor_compiler(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", TRAIN], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
