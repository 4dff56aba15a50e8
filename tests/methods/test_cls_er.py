"""CLS-ER and its variants equal their straight-line twins: the network that learns, and its two
slow copies, each with a φ of its own."""

import pytest
import torch
import torch.nn.functional as F

from bntricks import Learner, make
from helpers import tiny
from helpers.twin import close, points, side_by_side, stacked

pytestmark = pytest.mark.reference

REG, PLASTIC, STABLE, KEEP = 0.15, 0.9, 0.6, 0.7
HYPER = {"plastic": PLASTIC, "stable": STABLE, "keep": KEEP}


def copies(twin):
    if not hasattr(twin, "plastic"):
        twin.plastic, twin.stable, twin.steps = twin.apart(), twin.apart(), 0
    return twin.plastic, twin.stable


def targets(twin, bm):
    """Of the two copies, each asked in training mode, the one that is surer of the true class."""
    x, y = stacked(bm)
    plastic, stable = (each.forward(x, track=True) for each in copies(twin))
    surer = [F.softmax(z, 1)[torch.arange(len(y)), y] for z in (plastic, stable)]
    return torch.where((surer[1] > surer[0])[:, None], stable, plastic)


def finish_step(twin, bt):
    twin.reservoir(bt)
    twin.steps += 1
    for rate, other in zip((PLASTIC, STABLE), copies(twin), strict=True):
        if torch.rand((), generator=twin.averaging, dtype=torch.float64) < rate:
            keep = min(1 - 1 / (twin.steps + 1), KEEP)
            for name, own in other.theta.items():
                other.theta[name] = keep * own + (1 - keep) * twin.theta[name].detach()


def cls_er(twin, bt):
    copies(twin)
    bm = twin.draw()
    loss = 0.0
    if bm:
        target = targets(twin, bm)
        loss = REG * ((twin.forward(stacked(bm)[0], track=True) - target) ** 2).mean()
    twin.descend(loss + twin.ce(bt + bm, track=True))
    finish_step(twin, bt)


def cls_er_split(twin, bt):
    copies(twin)
    bm = twin.draw()
    loss = 0.0
    if bm:
        target, (x, y) = targets(twin, bm), stacked(bm)
        z = twin.forward(x, track=True)
        loss = REG * ((z - target) ** 2).mean() + F.cross_entropy(z, y)
    twin.descend(loss + twin.ce(bt, track=True))
    finish_step(twin, bt)


def stable(twin):
    return twin.stable.evaluate(points())


def stable_with_working_phi(twin):
    other = twin.stable.apart()
    other.phi = twin.phi
    return other.evaluate(points())


VARIANTS = {
    "cls-er": (cls_er, stable),
    "cls-er-working-phi": (cls_er, stable_with_working_phi),
    "cls-er-working": (cls_er, lambda twin: twin.evaluate(points())),
    "cls-er-split": (cls_er_split, stable),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_recipe_equals_its_twin_and_predicts_by_the_right_network(name):
    step, predicted = VARIANTS[name]

    def check(learner, twin):
        if not hasattr(twin, "plastic"):
            return
        for which in ("plastic", "stable"):
            net, other = learner.state.averages[which], getattr(twin, which)
            assert net.training
            for key, value in net.named_parameters():
                assert close(value, other.theta[key]), (which, key)
            for key, value in net.named_buffers():
                assert close(value, other.phi[key]), (which, key)
        assert torch.allclose(learner.scores(points()), predicted(twin), atol=1e-5)

    side_by_side(name, step, check=check, hyper=HYPER)


@pytest.mark.law
def test_an_average_that_is_always_moved_is_what_the_closed_form_says():
    """With keep 1, the k-th of n steps has the weight 1/(n + 1), and so has the beginning."""
    torch.manual_seed(0)
    learner = Learner(tiny.network(), make("cls-er", stable=1.0, keep=1.0), memory=10)
    weights = [learner.net[0].weight.detach().clone()]
    learner.begin([0, 1])
    for x, y in tiny.batches(1, steps=5):
        learner.observe(x, y)
        weights.append(learner.net[0].weight.detach().clone())
    average = learner.state.averages["stable"][0].weight
    assert torch.allclose(average, torch.stack(weights).mean(0), atol=1e-6)


@pytest.mark.law
def test_an_average_that_is_never_moved_stays_and_still_has_a_phi_of_its_own():
    learner = Learner(tiny.network(), make("cls-er", stable=0.0), memory=10)
    start = learner.net[0].weight.detach().clone()
    learner.begin([0, 1])
    for x, y in tiny.batches(1):
        learner.observe(x, y)
    stable = learner.state.averages["stable"]
    assert torch.equal(stable[0].weight, start)
    assert stable[1].num_batches_tracked == 2  # the memory batches of the steps after the first
    assert learner.net[1].num_batches_tracked == 5


@pytest.mark.law
def test_a_head_that_grows_grows_in_every_copy_to_the_same_rows():
    learner = Learner(tiny.network(), make("cls-er"), memory=10)
    learner.grow(9)
    for net in learner.state.averages.values():
        assert torch.equal(net[-1].weight, learner.net[-1].weight)


@pytest.mark.law
def test_copies_of_a_network_in_evaluation_mode_have_a_phi_that_moves():
    learner = Learner(tiny.network().eval(), make("cls-er"), memory=10)
    learner.begin([0, 1])
    for x, y in tiny.batches(1):
        learner.observe(x, y)
    for net in learner.state.averages.values():
        assert net.training
        assert net[1].num_batches_tracked == 2
        net.eval()
    learner.begin([2, 3])
    assert all(net.training for net in learner.state.averages.values())
