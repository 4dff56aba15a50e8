"""Rounds, intervals and bounds, on clocks and numbers that are known."""

import itertools

import numpy as np
import pytest

from bntricks.streams.files.progress import silent
from costs.timing import Row, interleaved, median_interval


def test_a_round_measures_each_once_in_turn_and_the_first_round_is_not_counted():
    ticks, called = itertools.count(), []
    workloads = {name: lambda name=name: called.append(name) for name in ("a", "b")}
    seconds = interleaved(workloads, 2, silent, what="ticks", clock=lambda: float(next(ticks)))
    assert called == ["a", "b"] * 3
    assert {name: list(each) for name, each in seconds.items()} == {"a": [1, 1], "b": [1, 1]}


def test_the_interval_covers_the_median_19_times_out_of_20():
    random = np.random.default_rng(0)
    draws = random.lognormal(size=(4000, 15))
    inside = [low <= 1.0 <= high for low, high in map(median_interval, draws)]
    assert 0.94 <= np.mean(inside) <= 0.99


@pytest.mark.parametrize(
    ("ratios", "met"),
    [
        ([0.9, 1.0, 1.1], True),
        ([0.9, 1.02, 1.1], True),  # within 3%, and the interval reaches below
        ([0.9, 1.04, 1.1], False),  # reaches below, but is too far above
        ([1.01, 1.02, 1.03], False),  # within 3%, but never below
    ],
)
def test_a_bound_is_met_by_the_interval_and_the_median_together(ratios, met):
    with_bound = Row.of("part", "name", np.array(ratios), "×", bound=1.0)
    assert with_bound.met is met
    assert Row.of("part", "name", np.array(ratios), "×").met is None
