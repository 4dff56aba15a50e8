"""The statistics of a comparison, against values worked out by hand and against laws."""

import math

import pytest
from hypothesis import given, strategies as st

from bntricks.report import statistics
from bntricks.report.statistics import contrast, equivalent, estimate, holm

NUMBERS = st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 3))
SIDES = st.dictionaries(st.integers(0, 9), NUMBERS, min_size=1)
DIFFERENCES = st.lists(NUMBERS, min_size=2, max_size=10)
PS = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=8)


def paired(a, b):
    """The difference a - b over the seeds that both have."""
    return estimate(contrast([(1.0, a), (-1.0, b)]))


def test_mean_and_sample_deviation():
    assert statistics.mean([1.0, 2.0, 6.0]) == 3.0
    assert statistics.sd([1.0, 2.0, 6.0]) == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert statistics.mean([]) is None
    assert statistics.sd([5.0]) is None


def test_the_interval_is_students():
    found = paired({0: 11.0, 1: 13.0, 2: 15.0}, {0: 10.0, 1: 11.0, 2: 12.0})
    half = 4.302653 * 1.0 / math.sqrt(3)  # the 97.5% quantile of t with 2 degrees of freedom
    assert found.mean == pytest.approx(2.0)
    assert found.low == pytest.approx(2 - half, abs=1e-5)
    assert found.high == pytest.approx(2 + half, abs=1e-5)


def test_only_common_seeds_are_paired_and_by_seed_not_by_position():
    a = {2: 30.0, 0: 10.0, 7: 99.0}
    b = {0: 1.0, 2: 3.0, 5: 0.0}
    assert contrast([(1.0, a), (-1.0, b)]) == [9.0, 27.0]
    assert paired(a, b).n == 2
    assert paired({0: 1.0}, {1: 1.0}).mean is None


def test_one_seed_has_a_difference_but_neither_interval_nor_p():
    assert estimate([3.0]) == statistics.Estimate(3.0, None, None, None, 1)


def test_the_p_is_students_and_two_sided():
    # t = 2 / (1 / sqrt(3)) with 2 degrees of freedom, whose tails are 1 - t / sqrt(2 + t²)
    t = 2 * math.sqrt(3)
    assert estimate([1.0, 2.0, 3.0]).p == pytest.approx(1 - t / math.sqrt(2 + t * t))
    assert estimate([-1.0, -2.0, -3.0]).p == estimate([1.0, 2.0, 3.0]).p
    assert estimate([0.0, 0.0]).p == 1.0
    assert estimate([1.0, 1.0]).p == 0.0


def test_with_a_margin_the_nearer_end_is_tested():
    inside, outside = estimate([0.5, 0.7, 0.6], 2.0), estimate([3.5, 3.3, 3.4], 2.0)
    assert inside.p == pytest.approx(outside.p)  # both 1.4 from the end at 2
    assert inside.p == pytest.approx(estimate([1.5, 1.3, 1.4]).p)


def test_holm_by_hand():
    # 0.01·4, then 0.02·3, then 0.03·2 lifted to the one before, then 0.5·1; None is not counted.
    adjusted = holm([0.03, None, 0.01, 0.5, 0.02])
    assert adjusted == [pytest.approx(0.06), None, pytest.approx(0.04), 0.5, pytest.approx(0.06)]


def test_equivalence_is_inside_outside_or_across():
    assert equivalent(-1.0, 2.0, 2.5) is True
    assert equivalent(2.6, 4.0, 2.5) is False
    assert equivalent(-4.0, -2.6, 2.5) is False
    assert equivalent(-3.0, 1.0, 2.5) is None
    assert equivalent(-9.0, 9.0, 2.5) is None


@given(SIDES, SIDES)
def test_swapping_the_sides_negates_the_difference(a, b):
    one, other = paired(a, b), paired(b, a)
    assert one.n == other.n
    assert one.p == (None if other.p is None else pytest.approx(other.p))
    if one.mean is not None:
        assert one.mean == pytest.approx(-other.mean)
    if one.low is not None:
        assert (one.low, one.high) == (pytest.approx(-other.high), pytest.approx(-other.low))


@given(DIFFERENCES, st.sampled_from([0.0, 2.5, 10.0]))
def test_interval_and_p_never_disagree(differences, margin):
    found = estimate(differences, margin)
    assert found.low <= found.mean <= found.high
    assert 0 <= found.p <= 1
    outside = [end for end in (-margin, margin) if not found.low <= end <= found.high]
    if abs(found.p - 0.05) > 1e-9:  # not at the edge itself
        assert (found.p < 0.05) == (len(outside) == 2)


@given(DIFFERENCES, st.floats(0.1, 10), st.randoms(use_true_random=False))
def test_p_depends_on_neither_unit_nor_order(differences, unit, random):
    shuffled = [unit * value for value in differences]
    random.shuffle(shuffled)
    assert estimate(shuffled).p == pytest.approx(estimate(differences).p, abs=1e-6)


@given(PS)
def test_holm_never_lowers_a_p_nor_changes_their_order(ps):
    pairs = sorted((p, q) for p, q in zip(ps, holm(ps), strict=True) if p is not None)
    assert all(p <= q <= 1 for p, q in pairs)
    assert [q for _, q in pairs] == sorted(q for _, q in pairs)
    assert [q is None for q in holm(ps)] == [p is None for p in ps]
    if pairs:
        assert pairs[0][1] == pytest.approx(min(1, pairs[0][0] * len(pairs)))


@given(st.floats(-50, 50), st.floats(0, 20), st.floats(0.1, 20))
def test_equivalence_is_symmetric_and_grows_with_the_margin(low, width, margin):
    assert equivalent(low, low + width, margin) == equivalent(-low - width, -low, margin)
    if equivalent(low, low + width, margin):
        assert equivalent(low, low + width, 2 * margin)
