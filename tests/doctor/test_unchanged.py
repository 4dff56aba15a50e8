"""The doctor changes nothing of a network, keeps no batch, and takes any kind of BatchNorm."""

import gc
import weakref

import pytest
import torch
from torch import nn

from bntricks import UserError, diagnose
from bntricks.doctor import repair
from bntricks.norm import mixed_phi, phi, set_phi
from helpers.doctor_data import assert_unchanged, groups, network, snapshot

SHAPES = {
    nn.BatchNorm1d: (4, 5),
    nn.BatchNorm2d: (4, 4, 4),
    nn.BatchNorm3d: (4, 2, 2, 2),
    nn.SyncBatchNorm: (4, 4, 4),
}


class Counting(nn.Module):
    """A user's layer that counts its calls in one buffer and rebinds another."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("last", torch.zeros(6))

    def forward(self, x):
        self.calls += 1
        self.last = x.detach().mean(0)
        return x


def awkward_network():
    net = nn.Sequential(Counting(), nn.Dropout(), *network()).train()
    net[3].eval()  # someone froze this one
    net[6].track_running_stats = False  # and another keeps its statistics, but does not use them
    net[2].register_forward_hook(lambda module, inputs, output: None)
    net(torch.randn(8, 6)).sum().backward()
    return net


def test_nothing_of_the_network_is_changed():
    net = awkward_network()
    before = snapshot(net)
    diagnose(net, groups(batches=2))
    assert_unchanged(net, before)


@pytest.mark.parametrize("at", [1, 3, 5, 7])
def test_nothing_is_changed_when_a_batch_raises_half_way(at):
    calls = 0

    def failing():
        nonlocal calls
        for batch in groups(batches=2)["old"]:
            calls += 1
            if calls > at:
                raise RuntimeError("the disk is gone")
            yield batch

    net = awkward_network()
    before = snapshot(net)
    with pytest.raises(RuntimeError, match="the disk is gone"):
        diagnose(net, {"old": failing, "new": groups(batches=2)["new"]})
    assert_unchanged(net, before)


def test_nothing_is_changed_when_the_network_raises_half_way():
    net, calls = awkward_network(), 0

    def scores(net, x):
        nonlocal calls
        calls += 1
        if calls == 3:  # φ is swapped for another's just now
            raise RuntimeError("out of memory")
        return net(x)

    before = snapshot(net)
    with pytest.raises(RuntimeError, match="out of memory"):
        diagnose(net, groups(batches=2), scores=scores)
    assert_unchanged(net, before)


def test_repair_changes_the_statistics_and_nothing_else():
    net = network()
    before = snapshot(net)
    repair(net, groups(batches=2))
    after = snapshot(net)
    for name, (_, value) in before["state"].items():
        assert torch.equal(value, after["state"][name][1]) == ("running" not in name), name
    assert before["flags"] == after["flags"]
    assert before["hooks"] == after["hooks"]


def test_a_shrunk_repair_goes_only_as_far_as_is_most_accurate():
    data, whole, shrunk = groups(batches=4), network(), network()
    before = phi(shrunk)
    assert repair(whole, data).share == 1
    repaired = repair(shrunk, data, shrink=True)
    wanted = mixed_phi(before, phi(whole), repaired.share)
    for name, own in phi(shrunk).items():
        torch.testing.assert_close(own["mean"], wanted[name]["mean"])
        torch.testing.assert_close(own["var"], wanted[name]["var"])
    assert repaired.before.statistics == "as it is"
    ruined = {k: {kind: 100 + v for kind, v in own.items()} for k, own in before.items()}
    set_phi(shrunk, ruined)
    assert repair(shrunk, data, shrink=True).share == 1


def test_batches_are_streamed_and_not_kept():
    alive, most = weakref.WeakSet(), 0
    big = torch.randn(64, 6), torch.arange(64) % 2

    def stream(label):
        nonlocal most
        for _ in range(40):
            gc.collect(0)
            most = max(most, len(alive))
            x = big[0].clone()
            alive.add(x)
            yield x, big[1] + label

    diagnose(network(), {"old": lambda: stream(0), "new": lambda: stream(2)}, size=64)
    gc.collect()
    assert not alive
    assert most <= 8


def test_a_list_a_loader_and_a_function_are_the_same():
    data = groups(batches=3)

    class Loader:
        def __init__(self, batches):
            self.batches = batches

        def __iter__(self):
            return iter(self.batches)

    plain = diagnose(network(), data)
    assert plain == diagnose(network(), {name: Loader(b) for name, b in data.items()})
    assert plain == diagnose(network(), {name: lambda b=b: iter(b) for name, b in data.items()})


def test_a_generator_is_refused_as_it_cannot_be_iterated_twice():
    data = groups(batches=2)
    with pytest.raises(UserError, match=r"group 'new' is a generator, .* only once"):
        diagnose(network(), {**data, "new": (batch for batch in data["new"])})


class Pooled(nn.Module):
    """A network without products, which not every processor has in half precision."""

    def __init__(self, kind):
        super().__init__()
        self.norm = kind(4)

    def forward(self, x):
        return self.norm(x).flatten(2).mean(2)


@pytest.mark.parametrize("kind", SHAPES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_every_kind_and_precision_of_layer_is_measured(kind, dtype):
    def batch(label):
        y = torch.arange(24) % 2 + label
        return torch.randn(24, *SHAPES[kind]) + y.view(-1, *[1] * len(SHAPES[kind])), y

    diagnosis = diagnose(Pooled(kind).to(dtype), {"old": [batch(0)] * 3, "new": [batch(2)] * 3})
    assert [(layer.kind, layer.channels) for layer in diagnosis.layers] == [(kind.__name__, 4)]
    assert diagnosis.layers[0].shift > 0.5


def test_a_network_that_returns_more_than_scores_needs_a_function():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = network()

        def forward(self, x):
            return self.body(x), x

    data = groups(batches=2)
    with pytest.raises(UserError, match=r"returns a tuple .* pass scores="):
        diagnose(Pair(), data)
    diagnosis = diagnose(Pair(), data, scores=lambda net, x: net(x)[0])
    assert diagnosis.as_is == diagnose(network(), data).as_is
