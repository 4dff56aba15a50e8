"""Metrics are pure functions of R; the expected values were worked out by hand."""

import pytest

from bntricks.runs import metrics

pytestmark = pytest.mark.law

R = [[90.0, None, None], [60.0, 80.0, None], [30.0, 85.0, 70.0]]


def test_accuracy_is_the_mean_of_the_last_row():
    assert metrics.acc(R) == pytest.approx((30 + 85 + 70) / 3)


def test_backward_transfer_compares_with_the_diagonal():
    assert metrics.bwt(R) == pytest.approx(((30 - 90) + (85 - 80)) / 2)


def test_forgetting_compares_with_the_best_ever():
    assert metrics.forgetting(R) == pytest.approx(((90 - 30) + (85 - 85)) / 2)


def test_accuracy_so_far_and_on_the_last_task():
    assert metrics.last_task(R) == 70.0
    assert metrics.acc_after_each_task(R) == [90.0, 70.0, pytest.approx(185 / 3)]


def test_average_incremental_accuracy_is_the_mean_over_the_tasks_learned():
    assert metrics.average_incremental(R) == pytest.approx((90 + 70 + 185 / 3) / 3)


def test_forward_transfer_compares_with_the_untrained_network_on_all_tasks_but_the_first():
    assert metrics.forward_transfer([None, 50.0, 40.0], [None, 55.0, 60.0]) == 12.5
    assert metrics.forward_transfer([None, 50.0, 40.0], [None, 55.0, None]) is None
    assert metrics.forward_transfer([None], [None]) is None


def test_what_was_never_measured_is_no_number():
    joint = [[None, None], [50.0, 70.0]]
    assert metrics.acc(joint) == 60.0
    assert metrics.bwt(joint) is None
    assert metrics.forgetting(joint) is None
    assert metrics.acc_after_each_task(joint) == [None, 60.0]
    assert metrics.average_incremental(joint) is None


def test_one_task_has_nothing_to_forget():
    assert metrics.bwt([[80.0]]) is None
