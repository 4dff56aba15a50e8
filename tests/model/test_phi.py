"""Which running statistics a lesson leaves: decided on held-out images, and confirmed on others."""

import pytest
import torch
from torch import nn

from bntricks import Model, View
from bntricks.model.phi import better, parted, settle_phi
from bntricks.norm import phi
from helpers.colours import FIRST, SECOND, pictures


def adopted(momentum):
    """A network that knows three colours, whose φ moves as slowly as this."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 12, 3),
        nn.BatchNorm2d(12, momentum=momentum),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 3),
    )
    old = {name: pictures(name, 30) for name in FIRST}
    view = View((0.5,) * 3, (0.25,) * 3)
    model = Model.adopt(
        net, classes=FIRST, memory=old, test=old, view=view, image_size=8, capacity=60, lr=0.02
    )
    model.learn({name: pictures(name, 40, seed=2) for name in FIRST}, more=True, epochs=20)
    return model


def new():
    return {name: pictures(name, 40) for name in SECOND}


def test_phi_that_never_caught_up_is_re_estimated_and_said():
    model = adopted(0.1)
    model.net[1].momentum = 1e-4
    with torch.no_grad():  # as a foreign φ may be
        model.net[1].running_mean.add_(1000)
    learned = model.learn(new(), epochs=15)
    trained, balanced = (learned.phi.accuracy[k] for k in ("as trained", "re-estimated"))
    assert learned.phi.chosen != "as trained"
    assert balanced[1] > trained[1] + 10
    rates = learned.phi.accuracy[learned.phi.chosen]
    assert learned.all.after == pytest.approx(rates[1], abs=1e-3)


def test_phi_that_serves_stays_to_the_bit():
    model = adopted(0.1)
    before = phi(model.net)["1"]
    decision = settle_phi(model.learner, model.held_out)
    after = phi(model.net)["1"]
    assert decision.chosen == "as trained"
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_nothing_is_decided_without_images_of_every_class():
    model = adopted(0.1)
    tests = model.held_out
    one_class_missing = type(tests)(tests.x[tests.y > 0], tests.y[tests.y > 0])
    assert settle_phi(model.learner, one_class_missing) is None
    for few in ([0, 30, 60], [0, 1, 2, 3, 30, 31, 32, 33, 60]):
        assert settle_phi(model.learner, type(tests)(tests.x[few], tests.y[few])) is None


def test_a_choice_that_the_other_half_does_not_confirm_is_not_made():
    assert better("a", {"a": (50, 60), "b": (70, 61)}) == "b"
    assert better("a", {"a": (50, 60), "b": (70, 60)}) == "a"
    assert better("a", {"a": (50, 60), "b": (50, 70)}) == "a"


def test_every_third_image_of_a_class_chooses_and_the_others_confirm_for_ever():
    y = torch.tensor([0, 1, 0, 1, 0, 0, 1, 0, 0, 2])
    first, second = parted(y)
    assert first.nonzero().flatten().tolist() == [4, 6, 8]
    assert torch.equal(second, ~first)
    later = torch.cat([y, torch.tensor([2, 2, 0, 1])])  # more images of known classes
    assert torch.equal(parted(later)[0][: len(y)], first)
    left = y[y != 1]  # a class was removed
    assert torch.equal(parted(left)[0], first[y != 1])
