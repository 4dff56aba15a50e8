"""The doctor against truth: faults of a known size, put in on purpose, are found at their size."""

import copy
import math

import pytest
import torch
from torch import nn

from bntricks import diagnose, mixed, moments, recalibrate
from bntricks.doctor.groups import rebatched
from bntricks.doctor.layers import Coordinates
from bntricks.norm import Moments
from helpers.doctor_data import groups, network

LAYERS = {"first": ("1", 0), "second": ("4", 1)}


@pytest.fixture(scope="module")
def data():
    return groups()


@pytest.fixture
def healthy(data):
    net = network()
    recalibrate(net, mixed(data))
    return net


def examined(net, data):
    """With all samples estimating, so that the truth is known exactly."""
    return diagnose(net, data, held_out=data)


def inputs(batches):
    """As the doctor passes them to the network."""
    return (x for x, _ in rebatched(batches, 38))


def test_a_healthy_network_has_no_distance_and_a_balanced_lean(healthy, data):
    diagnosis = examined(healthy, data)
    assert diagnosis.balanced.all_difference.points == 0
    assert [layer.name for layer in diagnosis.layers] == ["1", "4"]
    for layer in diagnosis.layers:
        assert layer.distance < 1e-5
        assert layer.shares["new"] == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("which", LAYERS)
@pytest.mark.parametrize("amount", [0.5, 3.0])
def test_a_planted_shift_is_found_in_its_layer_at_its_size(healthy, data, which, amount):
    name, position = LAYERS[which]
    layer = healthy.get_submodule(name)
    layer.running_mean += amount * (layer.running_var + layer.eps).sqrt()
    layers = examined(healthy, data).layers
    assert layers[position].shift == pytest.approx(amount, rel=1e-3)
    assert layers[position].log_ratio < 1e-4
    assert layers[position].kl == pytest.approx(amount**2 / 2, rel=1e-3)
    assert layers[position].distance == pytest.approx(amount, rel=1e-3)
    assert layers[1 - position].distance < 1e-4


@pytest.mark.parametrize("ratio", [0.25, 4.0])
def test_a_planted_ratio_of_variances_is_found_at_its_size(healthy, data, ratio):
    with torch.no_grad():
        healthy[4].running_var.copy_((healthy[4].running_var + 1e-5) * ratio - 1e-5)
    first, second = examined(healthy, data).layers
    assert second.log_ratio == pytest.approx(math.log(4), rel=1e-3)
    assert second.kl == pytest.approx((ratio + 1 / ratio - 2) / 4, rel=1e-3)
    assert second.shift < 1e-4
    assert first.distance < 1e-4


@pytest.mark.parametrize("share", [0.0, 0.2, 0.8, 1.0])
def test_a_planted_mixture_is_recognised_in_the_first_layer(healthy, data, share):
    old, new = (moments(healthy, inputs(data[name]))["1"] for name in ("old", "new"))
    mean = share * new.mean + (1 - share) * old.mean
    second = share * (new.var + new.mean**2) + (1 - share) * (old.var + old.mean**2)
    healthy[1].running_mean.copy_(mean)
    healthy[1].running_var.copy_(second - mean**2)
    layer = examined(healthy, data).layers[0]
    assert layer.shares["new"] == pytest.approx(share, abs=0.01)
    assert sum(layer.shares.values()) == pytest.approx(1.0)
    assert layer.unexplained < 0.01


@pytest.mark.parametrize("name", ["old", "new"])
def test_a_network_that_followed_one_group_is_found_out_at_every_depth(data, name):
    net = network().train()
    with torch.no_grad():
        for _ in range(20):
            for x, _ in data[name]:
                net(x)
    for layer in examined(net, data).layers:
        assert layer.shares[name] > 0.95


def test_joint_batches_of_unequal_parts_are_recognised_at_every_depth(data):
    net = network().train()
    with torch.no_grad():
        for _ in range(20):
            for (old, _), (new, _) in zip(*data.values(), strict=True):
                net(torch.cat([old[:8], new[:24]]))
    for layer in examined(net, data).layers:
        assert layer.shares["new"] == pytest.approx(0.75, abs=0.1)


def test_with_three_groups_each_gets_its_share(healthy):
    three = groups(per_group=((0,), (1,), (2, 3)))
    net = network()
    parts = [moments(net, inputs(three[name]))["1"] for name in three]
    shares = (0.5, 0.2, 0.3)
    mean = sum(s * p.mean for s, p in zip(shares, parts, strict=True))
    second = sum(s * (p.var + p.mean**2) for s, p in zip(shares, parts, strict=True))
    net[1].running_mean.copy_(mean)
    net[1].running_var.copy_(second - mean**2)
    layer = examined(net, three).layers[0]
    assert list(layer.shares.values()) == pytest.approx(shares, abs=0.03)


def test_groups_that_are_alike_leave_the_lean_unknown():
    one = groups(batches=12)["old"]
    alike, net = {"old": one[:6], "new": one[6:]}, network()
    recalibrate(net, mixed(alike))
    for layer in examined(net, alike).layers:
        assert layer.unexplained < layer.separation  # so this is not what makes it unsure
        assert layer.shares is None


def test_in_these_coordinates_mixtures_are_straight_lines():
    coordinates = Coordinates(torch.tensor([2.0]), torch.tensor([4.0]), eps=0.0)
    one = Moments(torch.tensor([2.0]), torch.tensor([4.0]), 1)
    other = Moments(torch.tensor([4.0]), torch.tensor([12.0]), 1)
    assert coordinates.of(one).tolist() == [0.0, 0.0]
    assert coordinates.of(other).tolist() == pytest.approx([1.0, 3 / 2**0.5])
    half = Moments(torch.tensor([3.0]), torch.tensor([9.0]), 1)  # of both in equal parts
    assert coordinates.of(half).tolist() == pytest.approx([0.5, 1.5 / 2**0.5])


def test_statistics_like_no_mixture_leave_the_lean_unknown(healthy, data):
    healthy[1].running_mean += 30
    first, second = examined(healthy, data).layers
    assert first.shares is None
    assert first.unexplained > first.separation
    assert second.shares is not None


def test_dead_channels_are_no_distance(data):
    net = network()
    with torch.no_grad():
        net[0].weight[:4] = 0
        net[0].bias[:4] = 0
    recalibrate(net, mixed(data))
    assert examined(net, data).layers[0].distance < 1e-5
    assert math.isfinite(examined(network(), data).layers[0].kl)


def test_layers_stand_in_the_order_in_which_they_are_met(data):
    class Reversed(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.late, self.early = nn.Linear(6, 4), nn.BatchNorm1d(6), nn.BatchNorm1d(6)
            self.idle = nn.BatchNorm1d(6)

        def forward(self, x):
            return self.head(self.late(torch.relu(self.early(x))))

    diagnosis = diagnose(Reversed(), data)
    assert [layer.name for layer in diagnosis.layers] == ["early", "late"]
    assert diagnosis.notes == ("Not used by these samples, so not judged: idle.",)


def test_a_layer_used_twice_is_measured_over_both_uses(data):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = nn.BatchNorm1d(6, affine=False, momentum=None), nn.Linear(6, 4)

        def forward(self, x):
            return self.head(self.norm(x) + self.norm(3 * x + 1))

    net = Twice()
    recalibrate(net, mixed(data))
    x = torch.cat(list(mixed(data)))
    both = torch.cat([x, 3 * x + 1])
    assert torch.allclose(net.norm.running_mean, both.mean(0), atol=1e-4)
    (layer,) = examined(net, data).layers
    assert layer.distance < 1e-4


def test_dropout_adds_no_noise_and_no_random_number_is_drawn(data):
    net = nn.Sequential(nn.Dropout(0.5), network(), nn.Dropout(0.5)).train()
    state = torch.get_rng_state()
    first, second = diagnose(net, data), diagnose(copy.deepcopy(net), data)
    assert first == second
    assert torch.equal(state, torch.get_rng_state())


def test_the_interval_of_the_lean_holds_the_truth_about_as_often_as_it_says():
    """φ of four fifths new samples, examined with 200 samples of each group."""

    def drawn(new, count, generator):
        shift = torch.tensor([1.0, -1.0, 0.5, 0.0]) * (1 if new else -1)
        x = torch.randn(count, 4, generator=generator) * (1.5 if new else 1.0) + shift
        return x, torch.full((count,), int(new))

    net = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()
    many = torch.Generator().manual_seed(99)
    x = torch.cat([drawn(False, 20_000, many)[0], drawn(True, 80_000, many)[0]])
    net[0].running_mean.copy_(x.mean(0))
    net[0].running_var.copy_(x.var(0))
    covered = []
    for seed in range(40):
        random = torch.Generator().manual_seed(seed)
        data = {name: [drawn(name == "new", 200, random)] for name in ("old", "new")}
        (layer,) = examined(net, data).layers
        covered.append(abs(layer.shares["new"] - 0.8) <= layer.newest_margin < 0.5)
    assert sum(covered) / len(covered) >= 0.85
