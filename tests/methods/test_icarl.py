"""iCaRL, iCaRL-BNT and its ablations equal their straight-line twins: every step, the teacher, the
exemplars, and the class of held-out points (spec 5, 6, 6.2, A10)."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from helpers.twin import CLASSES, EVEN, INPUTS, UNEVEN, Sample, points, side_by_side, stacked

pytestmark = pytest.mark.reference

DELTA = 1e-4


def loss(twin, batch, track):
    """Binary cross-entropy over the classes seen: of an old class the target is what the frozen
    previous network says, of a new one whether it is the label."""
    x, y = stacked(batch)
    h = twin.forward(x, track)[:, twin.seen]
    target = torch.zeros(len(y), CLASSES)
    if twin.old:
        target[:, twin.old] = torch.sigmoid(twin.teacher(x))[:, twin.old]
    for row, label in enumerate(y.tolist()):
        if label in twin.new:
            target[row, label] = 1
    target = target[:, twin.seen]
    return -(target * F.logsigmoid(h) + (1 - target) * F.logsigmoid(-h)).mean()


def weight(twin):
    """λ: the nominal capacity of the memory over the size of the task."""
    return twin.capacity / twin.size


def icarl(twin, bt, delta=DELTA):
    twin.descend(loss(twin, bt, track=True) + delta * twin.squares())


def icarl_bnt(twin, bt, delta=DELTA):
    if twin.t == 1:
        return icarl(twin, bt, delta)
    bb = twin.balanced(bt, twin.draw())
    total = weight(twin) * loss(twin, bb, track=True) + loss(twin, bt, track=False)
    return twin.descend(total + delta * twin.squares())


def icarl_concat(twin, bt, delta=DELTA):
    twin.descend(loss(twin, bt + twin.draw(), track=True) + delta * twin.squares())


def icarl_bnt_no_simulator(twin, bt, delta=DELTA):
    bp = twin.draw()
    twin.track(twin.balanced(bt, bp))
    total = loss(twin, bt, track=False)
    if bp:
        total = total + weight(twin) * loss(twin, bp, track=False)
    twin.descend(total + delta * twin.squares())


def icarl_bnt_imbalance_tracker(twin, bt, delta=DELTA):
    if twin.t == 1:
        return icarl(twin, bt, delta)
    bb = twin.balanced(bt, twin.draw())
    total = loss(twin, bt, track=True) + weight(twin) * loss(twin, bb, track=True)
    return twin.descend(total + delta * twin.squares())


def end(twin, task):
    """The teacher of the next task; then m exemplars a class, the first m of those there were."""
    twin.teacher = twin.frozen()
    m = twin.capacity // len(twin.seen)
    kept = [[s for s in twin.slots if s.y == label][:m] for label in twin.old]
    for label in twin.new:
        own = [s._replace(task=twin.t) for s in task if s.y == label]
        f = twin.features(stacked(own)[0]).double()
        kept.append([own[i] for i in herded(f, m)])
    twin.slots = [s for exemplars in kept for s in exemplars]


def herded(f, m):
    """Greedily the i that brings the mean of the chosen nearest to the mean of all, without
    repetition."""
    mu, chosen = f.mean(0), []
    for k in range(min(m, len(f))):
        left = [i for i in range(len(f)) if i not in chosen]
        total = sum((f[i] for i in chosen), torch.zeros_like(mu))
        chosen.append(min(left, key=lambda i: (mu - (f[i] + total) / (k + 1)).norm().item()))
    return chosen


def same_predictions(learner, twin, slots=None):
    """The nearest class mean in squared distance, over all classes with exemplars."""
    slots = slots or twin.slots
    if not twin.slots:
        return
    classes = sorted({int(s.y) for s in slots})
    means = [
        twin.features(stacked([s for s in slots if s.y == label])[0]).mean(0) for label in classes
    ]
    f = twin.features(points())
    distances = torch.stack([((f - mean) ** 2).sum(1) for mean in means], 1)
    nearest = torch.tensor(classes)[distances.argmin(1)]
    assert torch.equal(learner.predict(points()), nearest)


TWINS = {
    "icarl": icarl,
    "icarl-bnt": icarl_bnt,
    "icarl-concat": icarl_concat,
    "icarl-bnt-no-simulator": icarl_bnt_no_simulator,
    "icarl-bnt-imbalance-tracker": icarl_bnt_imbalance_tracker,
}


def compare(name, delta=DELTA, **options):
    """iCaRL alone trains on batches that mix the task with the exemplars."""
    step = partial(TWINS[name], delta=delta)
    return side_by_side(
        name, step, end=end, check=same_predictions, mixes=name == "icarl", **options
    )


@pytest.mark.parametrize("lessons", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("name", TWINS)
def test_the_recipe_equals_its_twin_over_three_tasks(name, lessons):
    compare(name, lessons=lessons)


@pytest.mark.parametrize("name", TWINS)
def test_the_decay_is_the_one_asked_for_on_every_parameter(name):
    compare(name, delta=0.02, hyper={"delta": 0.02})


def with_black(twin):
    """As published, a slot that was never filled holds a black image of class 0 (A13)."""
    black = Sample(torch.zeros(INPUTS), torch.tensor(0), task=1, id=-1)
    return twin.slots + [black] * (twin.capacity - len(twin.slots))


def end_as_published(twin, task):
    if twin.t > 1:
        twin.slots = with_black(twin)
    end(twin, task)


@pytest.mark.parametrize("capacity", [13, 80], ids=["a slot left over", "more than there is"])
def test_as_published_empty_slots_are_black_exemplars_of_class_0(capacity):
    black_ones = []

    def check(learner, twin):
        black_ones.append(sum(s.id == -1 for s in with_black(twin)))
        same_predictions(learner, twin, with_black(twin))

    learner, _ = side_by_side(
        "icarl",
        icarl,
        end=end_as_published,
        check=check,
        mixes=True,
        capacity=capacity,
        as_published=True,
    )
    assert max(black_ones) > 0
    kept = learner.memory.ids[: len(learner.memory)].tolist().count(-1)
    assert (kept > 0) == (capacity == 80)  # only where class 0 has fewer than its share


def test_a_class_with_fewer_samples_than_its_share_is_stored_whole():
    _, twin = compare("icarl-bnt", capacity=29, lessons=EVEN[:1])
    assert len(twin.slots) == 21 < 29 // 2 * 2


def test_a_share_is_floored_and_what_is_left_over_stays_empty():
    learner, _ = compare("icarl")
    assert learner.memory.capacity == 13
    assert torch.bincount(learner.memory.y[: len(learner.memory)]).tolist() == [2] * 6
