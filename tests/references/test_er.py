"""ER, ER-BNT, the pilots and the ablations equal their straight-line twins, step for step."""

import pytest
import torch
import torch.nn.functional as F
from twin import CAPACITY, LR, MEMORY_BATCH, Twin, balanced, batches, network, stacked

from bntricks.learner import Learner
from bntricks.methods import make
from bntricks.seeds import Generators


def sgd(twin, bt, t):
    twin.descend(twin.ce(bt, track=True))


def er(twin, bt, t):
    twin.descend(twin.ce(bt + twin.draw(), track=True))


def er_bnt(twin, bt, t):
    bm = twin.draw()
    twin.track(balanced(bt, bm, t))
    loss = twin.ce(bt, track=False)
    if bm:
        loss = loss + twin.ce(bm, track=False)
    twin.descend(loss)


def er_balance_batch(twin, bt, t):
    bm = twin.draw()
    copies = bm * max(t - 1, 1)
    x, y = stacked(bt + copies)
    each = F.cross_entropy(twin.forward(x, track=True), y, reduction="none")
    loss = each[: len(bt)].sum() + each[len(bt) :].sum() / max(t - 1, 1)
    twin.descend(loss / (len(bt) + len(bm)))


def er_cur_buf(twin, bt, t):
    bm = twin.draw()
    loss = twin.ce(bt, track=True)
    if bm:
        loss = loss + twin.ce(bm, track=True)
    twin.descend(loss)


def er_cur_prev(twin, bt, t):
    bp = twin.draw(before=t)
    loss = twin.ce(bt, track=True)
    if len(bp) > 1:
        loss = loss + twin.ce(bp, track=True)
    twin.descend(loss)


def er_balance_joint_train(twin, bt, t):
    bm = twin.draw()
    twin.track(balanced(bt, bm, t))
    loss = twin.ce(bt + bm, track=False)
    if bm:
        loss = loss + twin.ce(bm, track=False)
    twin.descend(loss)


def er_bnt_no_simulator(twin, bt, t):
    bp = twin.draw(before=t)
    twin.track(balanced(bt, bp, t))
    loss = twin.ce(bt, track=False)
    if len(bp) > 1:
        loss = loss + twin.ce(bp, track=False)
    twin.descend(loss)


TWINS = {
    "sgd": sgd,
    "er": er,
    "er-bnt": er_bnt,
    "er-balance-batch": er_balance_batch,
    "er-cur+buf": er_cur_buf,
    "er-cur+prev": er_cur_prev,
    "er-balance-joint-train": er_balance_joint_train,
    "er-bnt-no-simulator": er_bnt_no_simulator,
    "er-bnt-imbalance-tracker": er_cur_buf,
}


@pytest.mark.parametrize("name", TWINS)
def test_the_recipe_equals_its_twin_over_three_tasks_of_three_steps(name):
    net, generators = network(), Generators.of(3)
    twin = Twin(
        net, generators.memory_insertion.clone_state(), generators.memory_sampling.clone_state()
    )
    learner = Learner(
        net, make(name), memory=CAPACITY, memory_batch=MEMORY_BATCH, lr=LR, seed=generators
    )
    for task in (1, 2, 3):
        learner.begin([2 * task - 2, 2 * task - 1])
        for x, y in batches(task):
            bt = list(zip(x, y, strict=True))
            TWINS[name](twin, bt, task)
            twin.reservoir(bt, task)
            learner.observe(x, y)
            assert_same(learner, twin)
        learner.end()


def assert_same(learner, twin):
    for name, value in learner.net.named_parameters():
        assert torch.allclose(value, twin.theta[name], atol=1e-6), name
    for name, value in learner.net.named_buffers():
        assert torch.allclose(value, twin.phi[name], atol=1e-6), name
    if learner.memory is not None:
        x, y = stacked([(slot["x"], slot["y"]) for slot in twin.slots])
        assert torch.equal(learner.memory.x[: len(x)], x)
        assert torch.equal(learner.memory.y[: len(x)], y)
