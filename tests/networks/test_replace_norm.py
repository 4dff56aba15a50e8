"""Another normalisation for a network that exists."""

import pytest
import torch
from torch import nn

from bntricks import NORMS, ResNet, Rows, given_rows, replace_norm
from bntricks.networks.norms import SCHEMES
from bntricks.norm import layers

OURS = [name for name in NORMS.entries() if name in SCHEMES]


def trained():
    torch.manual_seed(0)
    net = ResNet(4, width=4, blocks=1, stages=2)
    net(torch.randn(8, 3, 8, 8) * 2 + 1)
    return net


@pytest.mark.parametrize("name", OURS)
def test_the_parameters_are_the_same_objects_and_the_optimiser_moves_them(name):
    net = trained()
    before = list(net.parameters())
    optimiser = torch.optim.SGD(before, lr=0.1)
    assert replace_norm(net, name, tasks=3) is net
    after = [p for n, p in net.named_parameters() if not n.endswith("task_weights")]
    assert len(before) == len(after)
    assert {id(p) for p in before} == {id(p) for p in after}
    assert not any(type(module) is nn.BatchNorm2d for module in net.children()) or name == "bn"
    scale = net.body[0].bn1
    weight = next(p for p in scale.parameters()).clone()
    net(torch.randn(8, 3, 8, 8)).square().sum().backward()
    optimiser.step()
    assert not torch.equal(weight, next(scale.parameters()))


@pytest.mark.parametrize("name", ["bn", "cn", "frozen", "brn", "tbbn", "adab2n"])
def test_running_statistics_are_kept(name):
    net, twin = trained(), trained()
    replace_norm(net, name, tasks=3)
    for own, other in zip(layers(net).values(), layers(twin).values(), strict=True):
        assert torch.equal(own.running_mean, other.running_mean)
        assert torch.equal(own.running_var, other.running_var)
        assert own.num_batches_tracked == 1


def test_a_function_of_the_channels_will_do_and_modes_are_kept():
    net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6).eval(), nn.ReLU())
    replace_norm(net, lambda channels: nn.GroupNorm(3, channels))
    assert isinstance(net[1], nn.GroupNorm)
    assert not net[1].training
    assert net[0].training


def test_a_layer_that_is_used_twice_stays_one_layer():
    shared = nn.BatchNorm2d(3)
    net = nn.Sequential(shared, nn.Sequential(nn.ReLU(), shared))
    replace_norm(net, "gn")
    assert net[0] is net[1][1]


def test_a_layer_by_itself_and_one_without_an_affine_map():
    alone = replace_norm(nn.BatchNorm2d(4, affine=False).double(), "gn")
    assert isinstance(alone, nn.GroupNorm)
    assert alone.weight is None
    assert alone.bias is None


@pytest.mark.parametrize("name", OURS)
def test_a_layer_without_an_affine_map_normalises_by_every_scheme(name):
    torch.manual_seed(0)
    x, rows = torch.randn(6, 4, 3, 3), Rows(2, torch.tensor([0, 0, 0, 0, 1, 1]))
    plain, fixed = nn.BatchNorm2d(4, affine=False), nn.BatchNorm2d(4)
    layers = [replace_norm(layer, name, tasks=3) for layer in (plain, fixed)]
    for layer in layers:
        with given_rows(layer, rows):
            layer.train()(x)
    outputs = []
    for layer in layers:
        with given_rows(layer, rows):
            outputs.append(layer(x))
    torch.testing.assert_close(*outputs)
    assert not any(p.shape == (4,) for p in layers[0].parameters())


@pytest.mark.parametrize("name", OURS)
def test_epsilon_is_kept(name):
    layer = replace_norm(nn.BatchNorm2d(4, eps=1e-3), name, tasks=3)
    assert {part.eps for part in layer.modules() if hasattr(part, "eps")} == {1e-3}


def test_an_epsilon_that_somebody_chose_for_the_new_layer_stays():
    layer = replace_norm(nn.BatchNorm2d(4, eps=1e-3), lambda c: nn.GroupNorm(2, c, eps=0.1))
    assert layer.eps == 0.1


def test_layers_without_statistics_are_none_of_our_business():
    assert layers(replace_norm(trained(), "gn")) == {}
