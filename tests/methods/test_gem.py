"""GEM and A-GEM equal their straight-line twins, with quadprog for GEM's quadratic program
(spec 3)."""

from functools import partial

import numpy as np
import pytest
import torch
from quadprog import solve_qp

from helpers.twin import EVEN, UNEVEN, side_by_side

pytestmark = pytest.mark.reference

TASKS = len(EVEN)


def gem(twin, bt, margin=0.5):
    """The past tasks first, each by itself, B_t last; every forward moves φ. True if the gradient
    had to be corrected."""
    past = [
        twin.gradient(twin.ce([s for s in twin.slots if s.task == k], track=True))
        for k in range(1, twin.t)
    ]
    g = twin.gradient(twin.ce(bt, track=True))
    hurts = any(g.double() @ k.double() < 0 for k in past)
    twin.move(nearest_in_cone(g, torch.stack(past), margin) if hurts else g)
    return hurts


def nearest_in_cone(g, past, margin):
    """min ½v'(GG' + εI)v + (Gg)'v with v ≥ margin; then G'v + g."""
    rows, row = past.double().numpy(), g.double().numpy()
    gram = rows @ rows.T
    gram = (gram + gram.T) / 2 + 1e-3 * np.eye(len(rows))
    v = solve_qp(gram, -rows @ row, np.eye(len(rows)), np.full(len(rows), float(margin)))[0]
    return torch.from_numpy(rows.T @ v + row).float()


def a_gem(twin, bt):
    """B_t first, then a batch of the memory; every forward moves φ. True if the gradient had to
    be corrected."""
    g = twin.gradient(twin.ce(bt, track=True))
    bm = twin.draw()
    hurts = False
    if bm:
        reference = twin.gradient(twin.ce(bm, track=True))
        hurts = bool(g @ reference < 0)
        if hurts:
            g = g - (g @ reference) / (reference @ reference) * reference
    twin.move(g)
    return hurts


def end(twin, task):
    """⌊|M|/T⌋ samples of the finished task, at random."""
    order = torch.randperm(len(task), generator=twin.insertion)
    chosen = order[: twin.capacity // TASKS].tolist()
    twin.slots = twin.slots + [task[i]._replace(task=twin.t) for i in chosen]


def compare(name, step, **options):
    """How many steps were corrected, and how many there were with something to correct by."""
    corrected, later = [], []

    def run(twin, bt):
        if twin.slots:
            later.append(twin.t)
        if step(twin, bt):
            corrected.append(twin.t)

    side_by_side(name, run, end=end, tasks=TASKS, **options)
    return len(corrected), len(later)


@pytest.mark.parametrize("lessons", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("margin", [None, 0.0])
def test_gem_equals_its_twin_over_three_tasks_of_three_steps(margin, lessons):
    hyper = {} if margin is None else {"margin": margin}
    assert compare("gem", partial(gem, **hyper), lessons=lessons, hyper=hyper) == (6, 6)


@pytest.mark.parametrize("lessons", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_a_gem_equals_its_twin_over_three_tasks_of_three_steps(lessons):
    assert compare("a-gem", a_gem, lessons=lessons) == (6, 6)


@pytest.mark.parametrize(("name", "step"), [("gem", gem), ("a-gem", a_gem)])
def test_a_gradient_that_hurts_no_past_task_is_left_alone(name, step):
    # Batches with stored samples among them agree with the past now and then.
    corrected, later = compare(name, step, mixes=True, capacity=30)
    assert 0 < corrected < later
