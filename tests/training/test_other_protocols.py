"""Learners beyond the paper's protocol: classes that come again, visitors, and no tasks at all."""

import pytest
import torch

from bntricks.batch import Batch, balance
from bntricks.errors import UserError
from bntricks.methods import make
from bntricks.recipes.language import BM, Bb
from bntricks.recipes.lesson import Lesson, next_lesson
from bntricks.recipes.protocols import splits_classes
from bntricks.training.checkpoint import digest, pack, unpack
from bntricks.training.learner import Learner
from bntricks.training.step import Draws
from helpers.tiny import batches, network, whole

pytestmark = pytest.mark.law

FREE = {
    *("er", "er-bnt", "er-cur+buf", "er-bnt-imbalance-tracker", "er-balance-joint-train"),
    *("er-track-memory", "der", "der-bnt", "der++", "der++-bnt", "der++-joint"),
    *("gss", "gss-bnt", "sgd"),
}
DISJOINT = {
    *("lwf", "icarl", "icarl-bnt", "icarl-concat"),
    *("icarl-bnt-no-simulator", "icarl-bnt-imbalance-tracker"),
}
NEED_TASKS = DISJOINT | {
    *("er-balance-batch", "er-cur+prev", "er-bnt-no-simulator", "er-prev-joint"),
    *("er-track-aligned", "er-recalibrate", "er-even", "er-even-bnt", "joint"),
    *("gem", "a-gem", "fdr", "fdr-bnt"),
}


def learner(name, **how):
    return Learner(network(), make(name), memory=12, memory_batch=6, batch=7, tasks=3, **how)


def mixed(*tasks):
    """Batches of several tasks, one after the other, as nobody announces them."""
    return [pair for pairs in zip(*map(batches, tasks), strict=True) for pair in pairs]


def test_the_methods_that_need_every_class_to_come_in_one_task_are_known():
    assert {name for name in FREE | NEED_TASKS if splits_classes(make(name))} == DISJOINT


def test_a_class_that_comes_again_is_new_again():
    first = next_lesson(Lesson(), [0, 1, 2])
    again = next_lesson(first, [2, 3], size=9, visitors=[5])
    assert again == Lesson(2, (2, 3), (0, 1), 9, (5,))
    assert next_lesson(again, [5]).old == (0, 1, 2, 3)  # a visitor becomes known in its own task


def test_classes_may_come_again_and_visitors_may_be_observed():
    who = learner("er-bnt")
    who.begin([0, 1])
    who.observe(*next(batches(1)))
    who.begin([1, 2], visitors=[4])
    x = torch.randn(6, 5)
    who.observe(x, torch.tensor([0, 1, 2, 4, 4, 2]))
    with pytest.raises(ValueError, match=r"labels \[3\]"):
        who.observe(x, torch.tensor([0, 1, 2, 3, 4, 2]))
    who.end()


@pytest.mark.parametrize("name", ["icarl-bnt", "lwf"])
def test_a_method_that_needs_disjoint_classes_says_so_before_it_learns(name):
    who, (x, y) = learner(name), whole(1)
    who.begin([0, 1], x, y)
    who.observe(x[:7], y[:7], ids=torch.arange(7))
    who.end(x, y)
    lesson = who.state.lesson
    for classes, visitors in (([1, 2], []), ([2, 3], [0])):
        with pytest.raises(ValueError, match="more than one task, and this method needs each in"):
            who.begin(classes, x, y, visitors=visitors)
    assert who.state.lesson == lesson


def test_a_task_free_learner_learns_whatever_comes():
    who, stream = learner("er-bnt", task_free=True, lr=0.1), mixed(1, 2, 3)
    passes = [sum(who.observe(x, y).item() for x, y in stream) for _ in range(10)]
    assert passes[-1] < 0.9 * passes[0]
    assert who.memory.offered == 10 * sum(len(y) for _, y in stream)
    assert set(who.state.lesson.seen) == set(range(6))
    assert set(who.predict(torch.randn(99, 5)).tolist()) <= set(range(6))


def test_without_tasks_the_classes_of_the_batch_are_the_new_ones():
    who = learner("er-bnt", task_free=True)
    for x, y in mixed(1, 2):
        who.observe(x, y)
    who.observe(*next(batches(3)))
    lesson = who.state.lesson
    assert set(lesson.new) == {4, 5}
    assert set(lesson.old) == {0, 1, 2, 3}
    draws = Draws(who.state, Batch(*next(batches(3))))
    expected = balance(draws.current, draws.batch(BM), new=(4, 5), old=(0, 1, 2, 3))
    assert torch.equal(draws.batch(Bb).y, expected.y)


@pytest.mark.parametrize("name", sorted(FREE))
def test_a_task_free_learner_goes_on_to_the_same_bits(name):
    one, other = (learner(name, task_free=True, seed=seed) for seed in (1, 2))
    stream = mixed(1, 2)
    for x, y in stream[:3]:
        one.observe(x, y)
    other.load_state_dict(unpack(pack(one.state_dict())))
    for who in (one, other):
        for x, y in stream[3:]:
            who.observe(x, y)
    assert digest(one.state_dict()) == digest(other.state_dict())


@pytest.mark.parametrize("name", sorted(NEED_TASKS))
def test_methods_that_need_tasks_refuse_to_learn_without(name):
    with pytest.raises(UserError, match="so it cannot learn without tasks: choose one"):
        learner(name, task_free=True)


def test_a_task_free_learner_has_no_tasks_to_begin():
    with pytest.raises(ValueError, match="has no tasks"):
        learner("er", task_free=True).begin([0, 1])
