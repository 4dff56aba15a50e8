"""Who moves φ: contexts that leave everything as they found it, and moments that are exact."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from bntricks import (
    UserError,
    freeze_ema,
    frozen_ema,
    moments,
    recalibrate,
    swapped,
    update_ema,
)
from bntricks.networks.resnet import ResNet
from bntricks.norm import Moments, batch_norms, ema_reach, layers, mode, skip_ema, tracking_layers

pytestmark = pytest.mark.law

KINDS = {
    "1d": (nn.BatchNorm1d, (8, 3)),
    "1d-sequence": (nn.BatchNorm1d, (8, 3, 5)),
    "2d": (nn.BatchNorm2d, (8, 3, 5, 5)),
    "3d": (nn.BatchNorm3d, (8, 3, 2, 2, 2)),
}


def state(net):
    return {name: value.clone() for name, value in net.state_dict().items()}


def assert_equal(before, after):
    assert before.keys() == after.keys()
    for name in before:
        assert torch.equal(before[name], after[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_ema_normalises_by_the_batch_and_leaves_the_statistics_alone(kind):
    layer, shape = KINDS[kind]
    net, x = nn.Sequential(layer(3)), torch.randn(shape) * 4 + 2
    before = state(net)
    with frozen_ema(net):
        y = net(x)
    assert_equal(before, state(net))
    assert torch.equal(y, copy.deepcopy(net)(x))
    net(x)
    assert not torch.equal(before["0.running_mean"], net[0].running_mean)
    assert net[0].num_batches_tracked == 1


def test_a_freeze_lasts_until_it_is_undone_and_may_be_undone_twice():
    net = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3))
    net[1].track_running_stats = False  # someone else's choice
    before, x = state(net), torch.randn(8, 3) + 2
    thaw = freeze_ema(net)
    net(x)
    net(x)
    assert_equal(before, state(net))
    thaw()
    thaw()
    assert [layer.track_running_stats for layer in net] == [True, False]
    net(x)
    assert net[0].num_batches_tracked == 1


def test_frozen_ema_covers_synchronised_layers():
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(3)))
    assert isinstance(net[0], nn.SyncBatchNorm)
    with frozen_ema(net):
        assert net[0].track_running_stats is False
    assert net[0].track_running_stats is True


def test_frozen_ema_puts_back_what_it_found_even_when_the_body_raises():
    net = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3), nn.BatchNorm1d(3))
    net[1].track_running_stats = False  # someone else's choice
    net[2].eval()
    with pytest.raises(RuntimeError, match="body"), frozen_ema(net):
        raise RuntimeError("body")
    assert [layer.track_running_stats for layer in net] == [True, False, True]
    assert [layer.training for layer in net] == [True, True, False]


def test_frozen_ema_lets_a_layer_in_evaluation_mode_use_its_statistics():
    net, x = nn.BatchNorm1d(3).eval(), torch.randn(4, 3)
    with frozen_ema(net):
        assert torch.allclose(net(x), x, atol=1e-4)  # fresh statistics: mean 0, variance 1


def test_gradients_flow_through_the_batch_statistics():
    net, x = nn.BatchNorm1d(2), torch.randn(6, 2, requires_grad=True)
    with frozen_ema(net):
        net(x).pow(3).sum().backward()
    # Normalised outputs do not change when all inputs shift alike.
    assert torch.allclose(x.grad.sum(0), torch.zeros(2), atol=1e-4)


def test_mode_restores_each_modules_own_flag():
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout())
    net[1].eval()
    with mode(net, training=False):
        assert not net[0].training
    assert [net.training, net[0].training, net[1].training] == [True, True, False]


def test_update_ema_moves_the_average_once_and_no_random_number():
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout())
    x = torch.randn(16, 2)
    generator = torch.get_rng_state()
    update_ema(net, x)
    assert torch.equal(generator, torch.get_rng_state())
    assert torch.allclose(net[0].running_mean, 0.1 * x.mean(0))
    assert torch.allclose(net[0].running_var, 0.9 + 0.1 * x.var(0))
    assert net[0].num_batches_tracked == 1
    skip_ema(net)
    assert net[0].num_batches_tracked == 2


def test_update_ema_refuses_a_network_in_evaluation_mode():
    with pytest.raises(ValueError, match="training mode"):
        update_ema(nn.BatchNorm1d(2).eval(), torch.randn(4, 2))


def test_the_reach_is_where_a_batch_falls_below_the_last_bit():
    assert ema_reach(nn.BatchNorm1d(2)) == 395
    slow = nn.Sequential(nn.BatchNorm1d(2, momentum=0.5), nn.BatchNorm1d(2, momentum=0.01))
    assert ema_reach(slow) == math.ceil(60 * math.log(2) / -math.log(0.99))
    assert ema_reach(nn.BatchNorm1d(2, momentum=None)) is None
    assert ema_reach(nn.BatchNorm1d(2, momentum=1.0)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_those_of_all_values_together(kind):
    layer, shape = KINDS[kind]
    net = nn.Sequential(layer(3))
    batches = [torch.randn(n, *shape[1:]) * (n + 1) + n for n in (8, 3, 5)]
    before = state(net)
    found = moments(net, batches)["0"]
    assert_equal(before, state(net))
    values = np.concatenate([np.moveaxis(b.numpy(), 1, 0).reshape(3, -1) for b in batches], axis=1)
    assert np.allclose(found.mean, values.mean(1), rtol=1e-6)
    assert np.allclose(found.var, values.var(1, ddof=1), rtol=1e-6)
    assert found.count == values.shape[1]


def test_merging_single_values_gives_their_variance():
    one = Moments(torch.tensor([1.0]), torch.tensor([0.0]), 1)
    three = Moments(torch.tensor([3.0]), torch.tensor([0.0]), 1)
    assert one.merge(three).var.item() == 2.0


def test_swapped_statistics_come_back_even_when_the_body_raises():
    net, x = nn.Sequential(nn.BatchNorm1d(2)), torch.randn(32, 2) * 3 + 5
    other, before = moments(net, [x]), state(net)
    net.eval()
    with swapped(net, other):
        assert torch.allclose(net(x).mean(0), torch.zeros(2), atol=1e-4)
    with pytest.raises(RuntimeError, match="body"), swapped(net, other):
        raise RuntimeError("body")
    assert_equal(before, state(net))


def test_recalibration_makes_evaluation_normalise_the_population():
    net, x = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), torch.randn(256, 4) * 2 - 3
    recalibrate(net, x.split(64))
    y = net.eval()(x)
    assert torch.allclose(y.mean(0), torch.zeros(6), atol=1e-3)
    assert torch.allclose(y.var(0), torch.ones(6), atol=1e-2)


def test_layers_that_keep_no_statistics_are_none_of_our_business():
    net = nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False), nn.InstanceNorm1d(2))
    assert layers(net) == {}
    with frozen_ema(net):
        pass
    assert net[0].track_running_stats is False


def test_a_network_without_batchnorm_has_nothing_to_wait_for():
    assert ema_reach(nn.Linear(2, 2)) == 0


@pytest.mark.parametrize(
    ("net", "batches", "message"),
    [
        (nn.Sequential(nn.GroupNorm(1, 3)), [torch.randn(8, 3)], "it has no BatchNorm layer"),
        (nn.BatchNorm1d(3, track_running_stats=False), [torch.randn(8, 3)], "keep no running"),
        (torch.jit.script(nn.BatchNorm1d(3)), [torch.randn(8, 3)], "TorchScript hides its layers"),
        (nn.BatchNorm1d(3), [], "no batches to recalibrate with"),
        (nn.BatchNorm1d(3), [torch.randn(8, 3) / 0], "the inputs of layer '' are not finite"),
    ],
)
def test_what_cannot_be_recalibrated_is_refused_and_stays(net, batches, message):
    before = state(net)
    with pytest.raises(UserError, match=message):
        recalibrate(net, batches)
    assert_equal(before, state(net))


def shared_and_missing():
    """A layer and a block that are used twice, and a child that is not there."""
    block = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU())
    net = nn.Sequential(block, nn.Sequential(nn.BatchNorm1d(3), block), block[0], nn.BatchNorm1d(3))
    net.register_module("absent", None)
    return net


NETWORKS = {
    "resnet": lambda: ResNet(2, width=2),
    "shared": shared_and_missing,
    "a layer": lambda: nn.BatchNorm2d(3),
    "none": lambda: nn.Linear(2, 2),
    "no statistics": lambda: nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False)),
    "scripted": lambda: torch.jit.script(nn.Sequential(nn.BatchNorm1d(3))),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", NETWORKS)
def test_layers_are_looked_up_in_the_order_of_the_modules(name):
    net = NETWORKS[name]()
    found = batch_norms(net)
    assert found == [m for m in net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    assert tracking_layers(net) == tracking_layers(found) == list(layers(net).values())
    assert batch_norms(found) is found
