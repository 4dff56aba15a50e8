"""Scores come from folded convolutions where that is faster, and are the network's own."""

import copy

import pytest
import torch
from torch import nn

from bntricks import Learner
from bntricks.methods import make
from bntricks.networks.folded import FOLD_FROM, Folded, folded
from bntricks.networks.resnet import ResNet
from bntricks.norm import layers
from helpers.processes import completed

pytestmark = pytest.mark.law

X = torch.randn(FOLD_FROM, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def lived(net):
    """As if it had been trained: φ, γ and β away from where they begin."""
    with torch.no_grad():
        for bn in layers(net).values():
            bn.running_mean.normal_()
            bn.running_var.uniform_(0.2, 3)
            bn.weight.normal_(1, 0.5)
            bn.bias.normal_()
    return net.eval()


def network(**shape):
    torch.manual_seed(3)
    return lived(ResNet(6, **{"width": 4, **shape}))


@pytest.mark.parametrize("shape", [{}, {"width": 5, "blocks": 1}, {"stages": 3, "blocks": 3}])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@torch.no_grad()
def test_a_folded_network_computes_what_the_network_does(shape, layout):
    net = network(**shape).to(memory_format=layout)
    x = X.contiguous(memory_format=layout)
    fold = folded(net, FOLD_FROM)
    assert isinstance(fold, Folded)
    assert torch.allclose(fold(x), net(x), rtol=1e-4, atol=1e-4)
    assert torch.allclose(fold.features(x), net.features(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["er-bnt", "icarl"])
def test_a_learner_scores_many_images_as_it_scores_few(name):
    learner = Learner(network(), make(name), memory=12)
    y = torch.arange(FOLD_FROM) % 2
    learner.begin([0, 1], X, y)
    learner.observe(X[:32], y[:32], ids=torch.arange(32))
    learner.end(X, y)
    before = copy.deepcopy(learner.net.state_dict())
    few = torch.cat([learner.scores(part) for part in X.split(FOLD_FROM // 2)])
    assert torch.allclose(learner.scores(X), few, rtol=1e-4, atol=1e-4)
    after = learner.net.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_scores_follow_the_statistics_of_the_moment():
    learner = Learner(network(), make("er"), memory=12)
    before = learner.scores(X)
    lived(learner.net)
    after = learner.scores(X)
    assert not torch.allclose(before, after, atol=1e-2)
    few = torch.cat([learner.scores(part) for part in X.split(FOLD_FROM // 2)])
    assert torch.allclose(after, few, rtol=1e-4, atol=1e-4)


class Changed(ResNet):
    def forward(self, x):
        return super().forward(x) * 2


def without_statistics():
    net = network()
    net.body[0].bn1 = nn.BatchNorm2d(4, track_running_stats=False)
    return net.eval()


@pytest.mark.parametrize(
    "net",
    [Changed(6, width=4), network().double(), nn.Flatten(), without_statistics()],
    ids=["subclass", "float64", "another network", "no statistics"],
)
def test_what_cannot_be_folded_stays_as_it_is(net):
    assert folded(net, 1000) is net


def test_a_handful_of_images_is_not_worth_folding_for():
    net = network()
    assert folded(net, FOLD_FROM - 1) is net


def test_networks_narrower_than_a_vector_train_without_harm(tmp_path):
    """oneDNN wrote beyond its buffers here, which shows when the heap is next looked at."""
    script = """
import torch
from bntricks import ResNet
torch.set_num_threads(1)
for width, size in ((2, 8), (3, 8), (4, 8), (6, 8), (8, 56), (12, 96)):
    net = ResNet(2, width=width, blocks=1, stages=2).to(memory_format=torch.channels_last)
    x = torch.rand(8 if size > 8 else 32, 3, size, size)
    x = x.contiguous(memory_format=torch.channels_last)
    for _ in range(8 if size > 8 else 100):
        net(x).sum().backward()
        spare = [torch.rand(n) for n in range(1, 60, 3)]
"""
    done = completed(script=script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
