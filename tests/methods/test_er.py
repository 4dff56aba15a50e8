"""ER, ER-BNT, the pilots and the ablations equal their straight-line twins, step for step."""

import pytest
import torch
import torch.nn.functional as F

from helpers.twin import EVEN, UNEVEN, er, er_bnt, side_by_side, stacked

pytestmark = pytest.mark.reference


def sgd(twin, bt):
    twin.descend(twin.ce(bt, track=True))


def er_balance_batch(twin, bt):
    bm = twin.draw()
    count = max(twin.t - 1, 1)
    x, y = stacked(bt + bm * count)
    each = F.cross_entropy(twin.forward(x, track=True), y, reduction="none")
    loss = each[: len(bt)].sum() + each[len(bt) :].sum() / count
    twin.descend(loss / (len(bt) + len(bm)))


def er_cur_buf(twin, bt):
    bm = twin.draw()
    loss = twin.ce(bt, track=True)
    if bm:
        loss = loss + twin.ce(bm, track=True)
    twin.descend(loss)


def er_cur_prev(twin, bt):
    bp = twin.draw(before=twin.t)
    loss = twin.ce(bt, track=True)
    if len(bp) > 1:
        loss = loss + twin.ce(bp, track=True)
    twin.descend(loss)


def er_balance_joint_train(twin, bt):
    bm = twin.draw()
    twin.track(twin.balanced(bt, bm))
    loss = twin.ce(bt + bm, track=False)
    if bm:
        loss = loss + twin.ce(bm, track=False)
    twin.descend(loss)


def er_bnt_no_simulator(twin, bt):
    bp = twin.draw(before=twin.t)
    twin.track(twin.balanced(bt, bp))
    loss = twin.ce(bt, track=False)
    if len(bp) > 1:
        loss = loss + twin.ce(bp, track=False)
    twin.descend(loss)


def er_prev_joint(twin, bt):
    twin.descend(twin.ce(bt + twin.draw(before=twin.t), track=True))


def er_track_memory(twin, bt):
    bm = twin.draw()
    loss = twin.ce(bt, track=False)
    if bm:
        loss = loss + twin.ce(bm, track=True)
    twin.descend(loss)


def er_track_aligned(twin, bt):
    bp = twin.draw(before=twin.t)
    bm = twin.draw()
    twin.track(twin.balanced(bt, bp))
    loss = twin.ce(bt, track=False)
    if bm:
        loss = loss + twin.ce(bm, track=False)
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
    "er-prev-joint": er_prev_joint,
    "er-track-memory": er_track_memory,
    "er-track-aligned": er_track_aligned,
}


def with_reservoir(step):
    def run(twin, bt):
        step(twin, bt)
        twin.reservoir(bt)

    return run


@pytest.mark.parametrize("lessons", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("name", TWINS)
def test_the_recipe_equals_its_twin_over_three_tasks_of_three_steps(name, lessons):
    side_by_side(name, with_reservoir(TWINS[name]), lessons=lessons)


def test_er_with_recalibration_sets_phi_to_the_memorys_own_moments():
    def end(twin, task):
        x, _ = stacked(twin.slots)
        for linear, norm in (("0", "1"), ("3", "4")):
            with torch.no_grad():
                x = x @ twin.theta[f"{linear}.weight"].T + twin.theta[f"{linear}.bias"]
                twin.phi[f"{norm}.running_mean"] = x.mean(0)
                twin.phi[f"{norm}.running_var"] = x.var(0)
                x = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
                x = (twin.theta[f"{norm}.weight"] * x + twin.theta[f"{norm}.bias"]).clamp(min=0)
        torch.randperm(len(twin.slots), generator=twin.sampling)

    def step(twin, bt):
        er(twin, bt)
        twin.reservoir(bt)

    side_by_side("er-recalibrate", step, end=end)
