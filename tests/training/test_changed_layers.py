"""A step looks up the network's BatchNorm layers once, and finds those that are there: whatever has
happened to the network since the last step."""

import copy

import pytest
from torch import nn

from bntricks import norm
from bntricks.networks.norms.replace import replace_norm
from bntricks.networks.norms.variant import BatchNormVariant
from bntricks.networks.resnet import ResNet
from bntricks.training import step
from helpers.lessons import batches, third_task

FAR = 10**6


def observe(learner, horizon=None):
    x, y, ids = batches(3)[1]
    learner.observe(x, y, ids=ids, horizon=horizon)


@pytest.mark.parametrize("horizon", [None, FAR])
@pytest.mark.parametrize("name", ["sgd", "er", "er-bnt", "icarl-bnt", "der++-bnt", "er-ace"])
def test_a_step_looks_up_the_layers_once(name, horizon, monkeypatch):
    learner, lookups = third_task(name), []

    def counting(net):
        lookups.append(net)
        return modules(net)

    modules = norm.modules
    for module in (norm, step):
        monkeypatch.setattr(module, "modules", counting)
    observe(learner, horizon)
    assert lookups == [learner.net]


def swap(learner):
    replace_norm(learner.net, "brn")


def add(learner):
    learner.net.conv = nn.Sequential(learner.net.conv, nn.BatchNorm2d(2))


def restore(learner):
    learner.load_state_dict(copy.deepcopy(learner.state_dict()))


def replace_network(learner):
    learner.state.net = copy.deepcopy(learner.net)
    learner.grow(6)  # for an optimiser of its parameters


def grow(learner):
    learner.grow(8)


CHANGES = [swap, add, restore, replace_network, grow]


@pytest.mark.parametrize("horizon", [None, FAR])
@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_phi_still_moves_once_a_step(change, horizon):
    learner = third_task("er-bnt")
    observe(learner, horizon)
    change(learner)
    before = counters(learner)
    observe(learner, horizon)
    assert counters(learner) == {name: count + 1 for name, count in before.items()}


def counters(learner):
    """How many batches each layer that the network has now says it has seen."""
    layers = norm.layers(learner.net)
    assert len(layers) >= len(norm.layers(ResNet(6, width=2, blocks=1, stages=2)))
    return {name: int(layer.num_batches_tracked) for name, layer in layers.items()}


class Penalised(BatchNormVariant):
    """Remembers what it was told, and adds to the loss."""

    def normalise(self, x):
        out = super().normalise(x)
        self.seen, self.penalty = self.rows, out.square().mean()
        return out


def test_layers_that_are_put_in_between_steps_are_told_and_asked():
    learner = third_task("er")
    observe(learner)
    replace_norm(learner.net, Penalised)
    observe(learner)
    for layer in norm.layers(learner.net).values():
        assert layer.seen.task == 3
        assert layer.rows is None
        assert layer.penalty is None
