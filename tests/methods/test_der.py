"""DER, DER++ and their BN Tricks forms equal their straight-line twins, step for step.

Stored with each sample are the logits that the step's own forward of B_t gave it, before the
update (spec 5, A9).
"""

import pytest
import torch.nn.functional as F

from helpers.twin import EVEN, UNEVEN, logits_of, side_by_side, stacked

pytestmark = pytest.mark.reference


def kd(twin, batch, track):
    """Mean over batch and logits of the squared distance to the stored logits."""
    h = twin.forward(stacked(batch)[0], track)
    return ((h - logits_of(batch)) ** 2).mean()


def der(twin, bt, alpha=0.3):
    bm = twin.draw()
    x, y = stacked(bt)
    z = twin.forward(x, track=True)
    loss = F.cross_entropy(z, y)
    if bm:
        loss = loss + alpha * kd(twin, bm, track=True)
    twin.descend(loss)
    twin.reservoir(bt, z)


def der_bnt(twin, bt, alpha=0.3):
    bm = twin.draw()
    twin.track(twin.balanced(bt, bm))
    x, y = stacked(bt)
    z = twin.forward(x, track=False)
    loss = F.cross_entropy(z, y)
    if bm:
        loss = loss + alpha * kd(twin, bm, track=False)
    twin.descend(loss)
    twin.reservoir(bt, z)


def derpp(twin, bt, alpha=0.2, beta=0.5):
    x, y = stacked(bt)
    z = twin.forward(x, track=True)
    loss = F.cross_entropy(z, y)
    bm1, bm2 = twin.draw(), twin.draw()
    if bm1:
        loss = loss + alpha * kd(twin, bm1, track=True)
        loss = loss + beta * twin.ce(bm2, track=True)
    twin.descend(loss)
    twin.reservoir(bt, z)


def derpp_joint(twin, bt, alpha=0.2, beta=0.5):
    bm1, bm2 = twin.draw(), twin.draw()
    sizes = [len(bt), len(bm1), len(bm2)]
    x, y = stacked(bt + bm1 + bm2)
    z = twin.forward(x, track=True).split(sizes)
    y_new, _, y_old = y.split(sizes)
    loss = F.cross_entropy(z[0], y_new)
    if bm1:
        loss = loss + alpha * ((z[1] - logits_of(bm1)) ** 2).mean()
        loss = loss + beta * F.cross_entropy(z[2], y_old)
    twin.descend(loss)
    twin.reservoir(bt, z[0])


def derpp_bnt(twin, bt, alpha=0.2, beta=0.5):
    bm = twin.draw()
    twin.track(twin.balanced(bt, bm))
    x, y = stacked(bt)
    z = twin.forward(x, track=False)
    loss = F.cross_entropy(z, y)
    if bm:
        h = twin.forward(stacked(bm)[0], track=False)
        loss = loss + alpha * ((h - logits_of(bm)) ** 2).mean()
        loss = loss + beta * F.cross_entropy(h, stacked(bm)[1])
    twin.descend(loss)
    twin.reservoir(bt, z)


TWINS = {
    "der": der,
    "der-bnt": der_bnt,
    "der++": derpp,
    "der++-joint": derpp_joint,
    "der++-bnt": derpp_bnt,
}


@pytest.mark.parametrize("lessons", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("name", TWINS)
def test_the_recipe_equals_its_twin_over_three_tasks_of_three_steps(name, lessons):
    side_by_side(name, TWINS[name], lessons=lessons)


@pytest.mark.parametrize("name", TWINS)
def test_its_weights_are_the_ones_asked_for(name):
    hyper = {"alpha": 0.9, "beta": 0.1} if "++" in name else {"alpha": 0.9}
    side_by_side(name, lambda twin, bt: TWINS[name](twin, bt, **hyper), hyper=hyper)
