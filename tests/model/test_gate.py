"""Whether a lesson's result may replace the model: no, if it costs old classes measurably."""

import pytest
import torch

from bntricks.intervals import mean_share, paired_change
from bntricks.model.gate import judge, words

CLASSES = ("cat", "owl", "dog")


def judged(now, *, among=None, before=None, per_class=30, classes=CLASSES, old=2):
    """The gate's judgement where old classes have so many images each, which were all right
    before. `now` are counts of answers by class, one dict for each old class."""

    def answers(counts):
        return torch.tensor([k for each in counts for k, n in each.items() for _ in range(n)])

    y = torch.arange(old).repeat_interleave(per_class)
    right = [{label: per_class} for label in range(old)]
    before = answers(before or right)
    return judge(y, before, answers(among or now), answers(now), classes, old)


def test_a_lesson_that_loses_nothing_passes_without_a_word():
    gate = judged([{0: 29, 1: 1}, {1: 30}])
    assert gate.refused is None
    assert not gate.fell
    assert words(gate, None, trained=True) is None
    assert gate.change.points == pytest.approx(-100 / 60)


def test_a_lesson_after_which_old_classes_are_confused_with_each_other_is_refused():
    gate = judged([{0: 20, 1: 10}, {1: 22, 0: 8}])
    assert "old classes are told apart less well: -30.0 points" in gate.refused
    assert gate.forgot
    assert gate.taken == ()
    assert "they are forgotten" in words(gate, None, trained=True)
    assert "memory" not in words(gate, None, trained=True)


class Store(list):
    capacity = 3


def test_a_larger_memory_is_advised_only_if_this_one_is_full_and_classes_are_forgotten():
    forgotten = judged([{0: 20, 1: 10}, {1: 22, 0: 8}])
    confused = judged([{0: 8, 2: 22}, {1: 30}], among=[{0: 30}, {1: 30}])
    full, half = Store("abc"), Store("a")
    assert "a new model with a larger memory" in words(forgotten, full, trained=True)
    assert "a new model with a larger memory" not in words(forgotten, half, trained=True)
    assert "a larger memory does not" in words(confused, half, trained=True)
    assert "so may a larger memory" in words(confused, full, trained=True)
    assert "rate" not in words(forgotten, None, trained=False)


def test_what_new_classes_take_is_said_and_up_to_a_third_of_a_class_no_reason_to_refuse():
    gate = judged([{0: 23, 2: 7}, {1: 25, 2: 5}], among=[{0: 30}, {1: 30}])
    assert (gate.refused, gate.fell) == (None, True)
    said = words(gate, None, trained=True)
    assert "from 100.0% to 80.0%: -20.0 points" in said
    assert "confused with new ones, not forgotten: cat for dog (7), owl for dog (5)" in said


def test_a_class_that_a_new_one_takes_nearly_whole_is_refused():
    gate = judged([{0: 8, 2: 22}, {1: 30}], among=[{0: 30}, {1: 30}])
    assert gate.refused.startswith("cat lost more than a third of its 100.0% to new classes")
    assert not gate.forgot
    assert gate.taken == (("cat", "dog", 22),)


def test_one_class_that_is_forgotten_is_enough_among_many():
    classes = tuple("abcdefgh")
    now = [{0: 10, 1: 20}, *({k: 30} for k in range(1, 8))]
    assert (
        "a is told apart from the other old classes less well"
        in judged(now, classes=classes, old=8).refused
    )


def test_few_images_are_counted():
    two = judged([{0: 3, 1: 1}, {1: 3, 0: 1}], per_class=4)
    assert two.refused is None
    three = judged([{0: 2, 1: 2}, {1: 3, 0: 1}], per_class=4)
    assert three.refused == "of 8 test images of old classes, 3 more are wrong"


def test_without_images_nothing_is_judged():
    none = torch.zeros(0, dtype=torch.int64)
    assert judge(none, none, none, none, CLASSES, 2) is None


def test_the_interval_of_a_paired_change_is_that_of_agresti_and_min():
    points, low, high = paired_change([(3, 9, 40)])
    n, change = 42, -6
    half = 1.959964 * ((12 + 1 - change**2 / n) ** 0.5) / n
    assert points == pytest.approx(-15)
    assert (low, high) == pytest.approx((100 * (change / n - half), 100 * (change / n + half)))


def test_the_interval_of_a_mean_share_covers_the_truth_as_often_as_it_says():
    random = torch.Generator().manual_seed(0)
    rates, samples = torch.tensor([0.9, 0.6, 0.97]), (13, 27, 20)
    covered = 0
    for _ in range(1000):
        counts = [
            (int((torch.rand(n, generator=random) < p).sum()), n)
            for p, n in zip(rates, samples, strict=True)
        ]
        _, low, high = mean_share(counts)
        covered += low <= 100 * float(rates.mean()) <= high
    assert covered > 930
    assert mean_share([(1, 1), (0, 0)]) is None
    assert mean_share([]) is None
