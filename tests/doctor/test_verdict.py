"""The words of the verdict follow the numbers, and claim nothing that an interval leaves open."""

import re
from dataclasses import replace

import pytest

from bntricks.doctor import Counterfactual, Difference, Group, Layer
from bntricks.doctor.verdict import judge, losing

GROUPS = (Group("cats", 100, (0, 1, 2), 1.0), Group("dogs", 100, (3,), 1.0))
NONE = Difference(0.0, -1.0, 1.0)
WIDE = Difference(9.0, -2.0, 18.0)
GAIN, LOSS = Difference(8.04, 5.0, 11.0), Difference(-4.0, -6.0, -2.0)
AS_IS = Counterfactual(
    "as it is",
    {"cats": 60.0, "dogs": 90.0},
    60.0,
    90.0,
    67.5,
    NONE,
    NONE,
    NONE,
    ((60, 30, 10), (5, 95, 0)),
    old_as_newest=30.0,
)


def layer(share=None, kl=0.0, name="bn", margin=0.05):
    shares = None if share is None else {"cats": 1 - share, "dogs": share}
    return Layer(name, "BatchNorm2d", 4, 0.1, 0.2, kl, 0.5, 0.1, shares, margin)


EVEN = layer(0.25)


def verdict_on(old=NONE, overall=NONE, newest=NONE, layers=(EVEN,), as_newest=20.0):
    differences = {"old_difference": old, "all_difference": overall, "newest_difference": newest}
    balanced = replace(AS_IS, **differences, old_as_newest=as_newest)
    return judge(GROUPS, layers, AS_IS, balanced)


@pytest.mark.parametrize(
    ("old", "overall", "cost", "headline", "advice"),
    [
        (
            GAIN,
            GAIN,
            "old",
            "cost this model 8.0 points on the old classes (95% interval 5.0 to 11",
            "Recalibrate φ on",
        ),
        (GAIN, NONE, "old", "points on the old classes", "would help these classes, with no"),
        (GAIN, LOSS, "old", "points on the old classes", "Leave φ as it is"),
        (NONE, GAIN, "all", "cost this model 8.0 points over all classes", "Recalibrate φ on"),
        (NONE, NONE, "none", "have no measurable cost", "would not change accuracy measurably"),
        (NONE, WIDE, "none", "have no measurable cost", "too few to tell"),
        (LOSS, LOSS, "none", "have no measurable cost", "Leave φ as it is"),
    ],
)
def test_the_headline_and_the_advice_follow_the_intervals(old, overall, cost, headline, advice):
    verdict = verdict_on(old, overall)
    assert verdict.cost == cost
    assert headline in verdict.headline
    assert advice in verdict.advice


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        (
            [0.9, None, 0.7, 0.8],
            "leans towards the newest group (dogs): its share is 0.80 (95% interval 0.75 to 0.85) "
            "in the median of 3",
        ),
        ([0.34], "does not lean"),
        ([0.1], "leans away from the newest group (dogs)"),
        ([None, None], "cannot be determined in any layer"),
    ],
)
def test_the_lean_is_the_median_of_the_layers_that_can_be_told(shares, words):
    evidence = " ".join(verdict_on(layers=[layer(share) for share in shares]).evidence)
    assert words in evidence
    assert "0.25 is balanced" in evidence or "cannot" in words


def test_a_lean_that_may_be_none_is_not_claimed():
    unsure = " ".join(verdict_on(layers=[layer(0.6, margin=0.4)]).evidence)
    assert "does not lean measurably" in unsure
    assert "0.60 (95% interval 0.20 to 1.00)" in unsure


def test_advice_to_recalibrate_names_the_classes_that_would_lose():
    verdict = verdict_on(old=GAIN, overall=GAIN, newest=LOSS)
    assert "only if all classes matter alike: +8.0 points (5.0 to 11.0)" in verdict.advice
    assert "but -4.0 points on newest classes (-6.0 to -2.0)" in verdict.advice


def with_groups(**groups):
    return replace(AS_IS, differences={**groups, "dogs": NONE})


def test_one_old_group_that_is_hurt_or_would_lose_is_named_though_old_classes_together_are_not():
    hurt = judge(GROUPS, (EVEN,), AS_IS, with_groups(owls=GAIN, cats=NONE))
    assert hurt.cost == "group"
    assert "8.0 points on the classes of owls" in hurt.headline
    assert "would help these classes" in hurt.advice
    assert losing(with_groups(owls=LOSS, cats=GAIN)) == (
        "-4.0 points on the classes of owls (-6.0 to -2.0)",
    )
    assert losing(with_groups(cats=LOSS)) == ()  # a single old group is what is called old


def test_far_layers_are_counted_and_the_furthest_is_named():
    layers = [layer(kl=0.02, name="a"), layer(kl=0.5, name="b"), layer(kl=0.06, name="c")]
    evidence = " ".join(verdict_on(layers=layers).evidence)
    assert "2 of 3 layers are further than 0.3 standard deviations" in evidence
    assert "the furthest is layer b at 1.00" in evidence


def test_answers_are_told_where_groups_have_classes_of_their_own():
    assert "30.0% of the samples of old classes are taken for" in " ".join(verdict_on().evidence)
    assert "with balanced φ, 20.0%" in " ".join(verdict_on().evidence)
    assert "taken for" not in " ".join(verdict_on(as_newest=None).evidence)


def test_no_difference_reads_as_minus_nothing():
    assert "-0.0 points" not in verdict_on(old=Difference(-0.01, -1.0, 1.0)).headline


def test_a_cost_on_the_newest_classes_is_named_too():
    verdict = verdict_on(newest=GAIN)
    assert verdict.cost == "newest"
    assert "cost this model 8.0 points on the newest classes" in verdict.headline
    assert "would help these classes, with no measurable change over all" in verdict.advice


def test_accuracy_that_moves_from_some_classes_to_others_is_told_with_both():
    numbers = re.findall(r"[+-]?\d+\.\d", verdict_on(old=LOSS, newest=GAIN).advice)
    assert numbers == ["+8.0", "5.0", "11.0", "-4.0", "-6.0", "-2.0"]


def test_old_and_newest_classes_are_both_named_where_both_are_hurt():
    verdict = verdict_on(old=GAIN, overall=GAIN, newest=Difference(3.0, 1.0, 5.0))
    assert verdict.cost == "old"
    assert "on the old classes (95% interval 5.0 to 11.0) and 3.0 points on the newest classes" in (
        verdict.headline
    )


def test_an_interval_that_is_shown_to_reach_zero_promises_nothing():
    touching = Difference(4.2, 0.04, 8.1)
    assert touching.interval == "0.0 to 8.1"
    verdict = verdict_on(old=touching, overall=touching, newest=touching)
    assert verdict.cost == "none"
    assert "Recalibrat" not in verdict.advice
