"""ER-ACE and ER-LAS equal their straight-line twins, and their losses do what they are made for."""

import pytest
import torch
import torch.nn.functional as F

from bntricks import Batch, Method, bn_tricks, make
from bntricks.recipes.language import Pass
from bntricks.recipes.lesson import Lesson
from bntricks.recipes.losses import ace, ce, las
from bntricks.recipes.options import TrainingOptions
from helpers.twin import CLASSES, EVEN, UNEVEN, side_by_side, stacked

pytestmark = pytest.mark.reference


def ace_of(twin, z, y):
    """Cross-entropy among the labels of the batch and the classes no task has had."""
    if twin.t == 1:
        return F.cross_entropy(z, y)
    unseen = [c for c in range(CLASSES) if c not in twin.seen]
    kept = sorted(set(y.tolist()) | set(unseen))
    picked = torch.tensor([kept.index(c) for c in y.tolist()])
    return F.cross_entropy(z[:, kept], picked)


def er_ace(twin, bt, track=True):
    bm = twin.draw()
    if not track:
        twin.track(twin.balanced(bt, bm))
    x, y = stacked(bt)
    loss = ace_of(twin, twin.forward(x, track), y)
    if bm:
        loss = loss + twin.ce(bm, track)
    twin.descend(loss)
    twin.reservoir(bt)


def er_ace_bnt(twin, bt):
    er_ace(twin, bt, track=False)


def er_ace_joint(twin, bt):
    bm = twin.draw()
    x, y = stacked(bt + bm)
    current, replayed = twin.forward(x, track=True).split([len(bt), len(bm)])
    loss = ace_of(twin, current, y[: len(bt)])
    if bm:
        loss = loss + F.cross_entropy(replayed, y[len(bt) :])
    twin.descend(loss)
    twin.reservoir(bt)


def er_las(twin, bt):
    x, y = stacked(bt + twin.draw())
    z = twin.forward(x, track=True)
    counts = torch.tensor([(y == c).sum() for c in range(CLASSES)])
    exponentials = (z.exp() * counts).sum(1)  # each class once for each of its rows
    own = z.exp().gather(1, y[:, None])[:, 0] * counts[y]
    twin.descend(-(own / exponentials).log().mean())
    twin.reservoir(bt)


TWINS = {
    "er-ace": er_ace,
    "er-ace-bnt": er_ace_bnt,
    "er-ace-joint": er_ace_joint,
    "er-las": er_las,
}


@pytest.mark.parametrize("lessons", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("name", TWINS)
def test_the_recipe_equals_its_twin_over_three_tasks_of_three_steps(name, lessons):
    side_by_side(name, TWINS[name], lessons=lessons)


def a_pass(logits, y, lesson, labels=None):
    return Pass(
        logits, Batch(torch.zeros(len(y), 1), y), lesson, None, TrainingOptions(), labels=labels
    )


def slopes(loss, y, lesson, labels=None):
    torch.manual_seed(0)
    logits = torch.randn(len(y), 8, requires_grad=True)
    loss.of(a_pass(logits, y, lesson, labels)).backward()
    return logits.grad


def test_ace_has_no_gradient_on_old_classes_that_are_absent():
    y = torch.tensor([4, 5, 4, 4])
    slope = slopes(ace, y, Lesson(3, new=(4, 5), old=(0, 1, 2, 3)))
    assert (slope[:, :4] == 0).all()
    assert (slope[:, 4:] != 0).all()  # those of the batch, and 6 and 7, which nobody has seen
    assert (slopes(ce, y, Lesson(3, (4, 5), (0, 1, 2, 3)))[:, :4] != 0).all()


def test_ace_drops_a_new_class_that_the_batch_lacks_but_not_in_the_first_task():
    y = torch.tensor([4, 4])
    assert (slopes(ace, y, Lesson(3, (4, 5), (0, 1, 2, 3)))[:, 5] == 0).all()
    assert (slopes(ace, y, Lesson(1, (4, 5)))[:, 5] != 0).all()


def test_a_rank_that_has_part_of_a_batch_counts_the_labels_of_the_whole():
    lesson = Lesson(2, new=(2, 3), old=(0, 1))
    y, whole = torch.tensor([2, 2]), torch.tensor([2, 2, 3, 1])
    for loss in (ace, las):
        assert (slopes(loss, y, lesson)[:, 3] == 0).all()
        assert (slopes(loss, y, lesson, whole)[:, 3] != 0).all()


def test_las_is_the_loss_of_pcr_but_for_a_constant():
    """PCR contrasts a row with the proxies of all rows of the batch: a class with two rows is in
    the denominator twice."""
    torch.manual_seed(1)
    y = torch.tensor([0, 0, 1, 3, 3, 3])
    features = F.normalize(torch.randn(6, 4), dim=1)
    proxies = F.normalize(torch.randn(8, 4), dim=1)
    logits = features @ proxies.T / 0.09
    pcr = -(logits[torch.arange(6), y] - torch.logsumexp(logits[:, y], 1)).mean()
    counts = torch.bincount(y)[y]
    found = las.of(a_pass(logits, y, Lesson(2, (2, 3), (0, 1))))
    assert found == pytest.approx((pcr - counts.log().mean()).item(), rel=1e-5)


def test_bn_tricks_of_er_ace_is_registered():
    assert bn_tricks(make("er-ace")) == make("er-ace-bnt")
    assert isinstance(make("er-ace-bnt"), Method)
    assert str(make("er-ace-bnt").updates[0]) == "ACE(B_t) + CE(B_M)"
