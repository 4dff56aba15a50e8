"""LwF equals its straight-line twin: warm-up, recording, and every step (spec 2)."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from helpers.twin import EVEN, LR, UNEVEN, close, side_by_side, stacked

pytestmark = pytest.mark.reference

EPOCHS, WARM_BATCH = 2, 6


def begin(twin, task):
    """From the second task on: train the new outputs of the linear layer alone, in evaluation
    mode, by cross-entropy among themselves; then record all logits of every sample."""
    if twin.t == 1:
        return
    x, y = stacked(task)
    weight, bias = twin.theta["6.weight"], twin.theta["6.bias"]
    for _ in range(EPOCHS):
        order = torch.randperm(len(y), generator=twin.replay_augmentation)
        for rows in order.split(WARM_BATCH):
            h = twin.features(x[rows]).detach() @ weight.T + bias
            wanted = torch.tensor([twin.new.index(label) for label in y[rows].tolist()])
            loss = F.cross_entropy(h[:, twin.new], wanted)
            for p, g in zip((weight, bias), torch.autograd.grad(loss, (weight, bias)), strict=True):
                p.data -= LR * g
    twin.recorded = twin.evaluate(x).detach()


def step(twin, bt, alpha=1.0, decay=5e-4):
    """CE over the classes seen + α·KD + δ‖θ‖²."""
    x, y = stacked(bt)
    h = twin.forward(x, track=True)
    wanted = torch.tensor([twin.seen.index(label) for label in y.tolist()])
    loss = F.cross_entropy(h[:, twin.seen], wanted)
    if twin.old:
        q = tempered(twin.recorded[[s.id for s in bt]][:, twin.old])
        p = tempered(h[:, twin.old])
        loss = loss - alpha * (q * p.log()).sum(1).mean()
    twin.descend(loss + decay * twin.squares())


def tempered(h):
    """Softmax at temperature 2, as softmax, power 1/2, renormalised."""
    rooted = F.softmax(h, 1) ** 0.5
    return rooted / rooted.sum(1, keepdim=True)


def same_targets(learner, twin):
    """The warm-up does not move old logits, so the steps alone would not tell when they were
    recorded."""
    if learner.state.recorded is not None:
        assert close(learner.state.recorded, twin.recorded)


@pytest.mark.parametrize("hyper", [{}, {"alpha": 3.0, "decay": 0.02}], ids=["default", "strong"])
@pytest.mark.parametrize("lessons", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_lwf_equals_its_twin_over_three_tasks_of_three_steps(lessons, hyper):
    side_by_side(
        "lwf",
        partial(step, **hyper),
        begin=begin,
        check=same_targets,
        lessons=lessons,
        hyper=hyper,
        batch=WARM_BATCH,
        epochs=EPOCHS,
    )
