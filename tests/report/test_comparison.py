"""Words about a gain follow from its interval, and intervals from pairs of the same seed."""

import pytest

from bntricks.report.comparison import Gain, compare, old_and_new
from bntricks.report.groups import group
from bntricks.report.statistics import Estimate
from helpers.records import a_run, runs

METRICS = ("acc", "bwt")


def compared(ours, theirs, metrics=METRICS):
    groups = {each.method: each for each in group([*runs("er-bnt", ours), *runs("er", theirs)])}
    return compare(groups["er-bnt"], groups["er"], metrics)


def test_a_gain_is_the_mean_of_differences_within_seeds():
    # Seeds differ by far more than the methods, and by the same in both.
    comparison = compared([20.0, 50.5, 81.0], [10.0, 40.0, 70.0])
    acc = comparison.gains[0]
    assert acc.difference.mean == pytest.approx(10.5)
    # Student's t of two degrees, 4.303, times the deviation 0.5 over √3.
    assert acc.difference.low == pytest.approx(10.5 - 4.3027 * 0.5 / 3**0.5, abs=1e-3)
    assert str(comparison) == (
        "ER-BNT against ER: ACC +10.5 (95% interval 9.3 to 11.7), BWT +10.5 (95% interval 9.3 to "
        "11.7), paired over 3 seeds; the intervals of ACC and BWT are above zero."
    )


def test_an_interval_that_includes_zero_is_said_to_show_nothing():
    sentence = str(compared([60.0, 40.0, 55.0], [50.0, 45.0, 50.0]))
    assert "the intervals of ACC and BWT include zero, so these runs show no difference" in sentence
    assert "above" not in sentence


def test_an_interval_that_begins_at_zero_as_it_is_printed_includes_zero():
    gain = Gain("acc", Estimate(mean=1.5, low=0.04, high=3.0, n=3))
    assert (str(gain), gain.sign) == ("ACC +1.5 (95% interval 0.0 to 3.0)", 0)
    assert Gain("acc", Estimate(mean=-1.5, low=-3.0, high=-0.04, n=3)).sign == 0
    assert Gain("acc", Estimate(mean=1.5, low=0.06, high=3.0, n=3)).sign == 1


def test_each_metric_gets_its_own_finding():
    ours = [a_run("er-bnt", s, r=[[90.0, None], [50.0, f]]) for s, f in enumerate([80.0, 81.0])]
    theirs = [a_run("er", s, r=[[f, None], [50.0, 60.0]]) for s, f in enumerate([70.0, 99.0])]
    groups = {each.method: each for each in group([*ours, *theirs])}
    finding = compare(groups["er-bnt"], groups["er"], METRICS).finding
    assert finding == (
        "the interval of ACC is above zero; the interval of BWT includes zero, so these runs show "
        "no difference there"
    )


def test_a_loss_is_called_one():
    assert compared([40.0, 41.0], [60.0, 61.5], ("acc",)).finding == (
        "the interval of ACC is below zero"
    )


def test_one_seed_shows_nothing():
    sentence = str(compared([60.0], [50.0]))
    assert "ACC +10.0, BWT +10.0, paired over 1 seed; one seed has no interval" in sentence


def test_seeds_that_only_one_method_has_do_not_count():
    comparison = compared([60.0, 61.0, 10.0], [50.0, 51.5])
    assert comparison.seeds == 2
    assert comparison.gains[0].difference.mean == pytest.approx(9.75)


def test_the_picture_has_old_and_newest_classes_of_every_method():
    records = [
        a_run("er", seed, r=[[90.0, None, None], [70.0, 95.0, None], [10.0 + seed, 30.0, 97.0]])
        for seed in (0, 2)
    ]
    figure = old_and_new(group([*records, *runs("joint", [80.0, 82.0], memory=None)]))
    drawn = {(row["label"], row["part"]): row for row in figure.rows}
    assert drawn["ER", "old classes"]["acc"] == pytest.approx(20.5)
    assert drawn["ER", "old classes"]["high"] == pytest.approx(20.5 + 0.5**0.5)
    assert drawn["ER", "newest classes"]["acc"] == 97.0
    assert drawn["Joint Training", "old classes"]["acc"] == 81.0
    assert {row["seeds"] for row in figure.rows} == {2}
    assert figure.spec["layer"]
