"""FDR and FDR-BNT equal their straight-line twins: two updates a step, and a pass at the end of
each task that stores outputs (spec 4; FDR-BNT is our reading of Algorithm 2 for it)."""

import pytest
import torch
import torch.nn.functional as F

from helpers.twin import (
    CLASSES,
    EVEN,
    INPUTS,
    UNEVEN,
    Sample,
    assert_same,
    batches,
    lesson,
    loader,
    logits_of,
    samples,
    side_by_side,
    stacked,
)

pytestmark = pytest.mark.reference


def distance(twin, batch, track):
    """Mean distance (not squared) of the probabilities to the stored ones, over as many classes
    as were stored (A20)."""
    z = logits_of(batch)
    h = twin.forward(stacked(batch)[0], track)[:, : z.shape[1]]
    return (F.softmax(h, 1) - F.softmax(z, 1)).norm(dim=1).mean()


def fdr(twin, bt):
    twin.descend(twin.ce(bt, track=True))
    bm = twin.draw()
    if bm:
        twin.descend(distance(twin, bm, track=True))


def fdr_bnt(twin, bt):
    bm = twin.draw()
    if not bm:
        twin.descend(twin.ce(bt, track=True))
        return
    bb = twin.balanced(bt, bm)
    share = twin.capacity / twin.size
    twin.descend(twin.ce(bt, track=False) + share * twin.ce(bb, track=True))
    twin.descend(distance(twin, bm, track=False))


def end(twin, task, batch, track):
    """⌊|M|/t⌋ of every task: of the older ones the first, of this one at random. The loader's
    batches go through the network in training mode; the outputs that fit are stored."""
    q = twin.capacity // twin.t
    kept = [s for k in range(1, twin.t) for s in [s for s in twin.slots if s.task == k][:q]]
    order = torch.randperm(len(task), generator=twin.insertion)
    fresh = []
    for part in loader(order, batch):
        if len(fresh) < q:
            shown = [task[i]._replace(task=twin.t) for i in part.tolist()]
            with torch.no_grad():
                z = twin.forward(stacked(shown)[0], track)
            fresh += [s._replace(logits=row) for s, row in zip(shown, z, strict=True)]
    twin.slots = kept + fresh[:q]


def end_as_published(twin, task, batch):
    """The published loop: a batch moves φ before the quota is looked at, which counts whole
    batches; and slots that were never filled are black samples of the first task."""
    q, counter, surplus = twin.capacity // twin.t, 0, 0
    if twin.t > 1:
        black = Sample(torch.zeros(INPUTS), torch.tensor(0), 1, torch.zeros(CLASSES))
        twin.slots = twin.slots + [black] * (twin.capacity - len(twin.slots))
    kept = [s for k in range(1, twin.t) for s in [s for s in twin.slots if s.task == k][:q]]
    fresh = []
    order = torch.randperm(len(task), generator=twin.insertion)
    for part in loader(order, batch):
        shown = [task[i]._replace(task=twin.t) for i in part.tolist()]
        with torch.no_grad():
            z = twin.forward(stacked(shown)[0], track=True)
        surplus += counter >= q
        if q - counter < 0:
            break
        fresh += [s._replace(logits=row) for s, row in zip(shown, z, strict=True)][: q - counter]
        counter += batch
    twin.slots = kept + fresh
    return surplus


@pytest.mark.parametrize(
    ("capacity", "surplus"),
    [
        (13, [1, 1, 1]),  # shares of 13, 6 and 4 in batches of 5
        (30, [0, 1, 2]),  # of all 21, of 15 (the task has no second batch left) and of 10
        (90, [0, 0, 0]),  # of all 21; black samples stand in for those that task 1 lacks
    ],
)
def test_as_published_the_pass_at_a_tasks_end_goes_on_too_long(capacity, surplus):
    counted = []
    side_by_side(
        "fdr",
        fdr,
        end=lambda twin, task: counted.append(end_as_published(twin, task, 5)),
        batch=5,
        capacity=capacity,
        as_published=True,
    )
    assert counted == surplus


TWINS = {"fdr": (fdr, True), "fdr-bnt": (fdr_bnt, False)}


def compare(name, batch, **options):
    step, track = TWINS[name]
    return side_by_side(
        name,
        step,
        end=lambda twin, task: end(twin, task, batch, track),
        batch=batch,
        **options,
    )


@pytest.mark.parametrize("lessons", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("name", TWINS)
def test_the_recipe_equals_its_twin_over_three_tasks_of_three_steps(name, lessons):
    compare(name, batch=7, capacity=42, lessons=lessons)  # shares of 42 (all 21), 21 and 14


@pytest.mark.parametrize("name", TWINS)
def test_a_last_sample_alone_is_stored_with_the_batch_before_it(name):
    compare(name, batch=5, capacity=63)  # shares of all 21


@pytest.mark.parametrize("name", TWINS)
def test_outputs_of_a_head_with_fewer_classes_are_compared_on_those(name):
    learner, twin = compare(name, batch=7, capacity=42, lessons=EVEN[:1])
    learner.memory.logits = learner.memory.logits[:, :4].clone()
    twin.slots = [s._replace(logits=s.logits[:4]) for s in twin.slots]
    x, y = lesson(2, EVEN[1])
    twin.arrive(EVEN[1], len(y))
    learner.begin(EVEN[1], x, y)
    for batch_x, batch_y, ids in batches(2, x, y):
        TWINS[name][0](twin, samples(batch_x, batch_y))
        learner.observe(batch_x, batch_y, ids=ids)
        assert_same(learner, twin)


@pytest.mark.parametrize("name", TWINS)
def test_a_share_that_ends_within_a_batch_stores_what_the_whole_batch_made_of_it(name):
    compare(name, batch=7)  # shares of 13, 6 and 4
