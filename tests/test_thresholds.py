"""Every threshold that decides a verdict, a warning or a sentence, tried on both sides of it.
`make mutants` moves them one by one, and a test must notice each."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from math import cos, log, pi
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bntricks import UserError
from bntricks.doctor import Counterfactual, Difference, Group, Layer
from bntricks.doctor.groups import survey
from bntricks.doctor.layers import lean_of
from bntricks.doctor.verdict import fitting_order, judge, remarks
from bntricks.model import gate
from bntricks.model.answers import Acceptance, acceptance, share
from bntricks.model.phi import better
from bntricks.model.summary import summarise
from bntricks.paper import Study
from bntricks.report.groups import group as grouped
from bntricks.report.statistics import Estimate
from bntricks.report.verdicts import verdicts
from bntricks.runs import check as checks
from bntricks.runs.check import check_on
from bntricks.runs.config import Config
from bntricks.runs.train import is_chance, train
from bntricks.streams import from_arrays
from bntricks.system.devices import near
from bntricks.system.pretend import pretend
from bntricks.training.schedules import one_cycle, steps
from helpers.records import runs

GROUPS = (Group("cats", 100, (0, 1, 2)), Group("dogs", 100, (3,)))
NONE = Difference(0.0, -1.0, 1.0)


# The doctor's verdict.


def diagnosed(*, overall=NONE, kl=0.0, share=0.25):
    """The verdict on these numbers, as one text."""
    accuracies = {"cats": 60.0, "dogs": 90.0}
    as_is = Counterfactual("as it is", accuracies, 60.0, 90.0, 67.5, NONE, NONE, NONE, None)
    shares = {"cats": 1 - share, "dogs": share}
    layer = Layer("bn", "BatchNorm2d", 4, 0.1, 0.2, kl, 0.5, 0.1, shares, 0.01)
    verdict = judge(GROUPS, [layer], as_is, replace(as_is, all_difference=overall))
    return " ".join((*verdict.evidence, verdict.advice))


@pytest.mark.parametrize(("distance", "far"), [(0.29, 0), (0.3, 0), (0.31, 1)])
def test_a_layer_is_far_beyond_three_tenths(distance, far):
    assert f"{far} of 1 layers" in diagnosed(kl=distance**2 / 2)


@pytest.mark.parametrize(
    ("share", "leans"),
    [(0.14, "away from"), (0.16, "not"), (0.34, "not"), (0.36, "towards")],
)
def test_phi_leans_a_tenth_beyond_the_balanced_share(share, leans):
    assert ("does not lean" if leans == "not" else f"leans {leans}") in diagnosed(share=share)


@pytest.mark.parametrize(("high", "few"), [(1.9, False), (2.0, False), (2.1, True), (4.0, True)])
def test_an_interval_wider_than_four_points_asks_for_more_samples(high, few):
    assert ("too few to tell" in diagnosed(overall=Difference(0.0, -2.0, high))) == few


@pytest.mark.parametrize(
    ("low", "high", "sign"), [(0.04, 1, 0), (0.06, 1, 1), (-1, -0.04, 0), (-1, -0.06, -1)]
)
def test_a_difference_needs_an_interval_that_is_printed_without_zero(low, high, sign):
    assert Difference((low + high) / 2, low, high).sign == sign


@pytest.mark.parametrize(("variety", "notes"), [(0.64, 1), (0.65, 0), (0.66, 0)])
def test_batches_of_few_classes_are_remarked(variety, notes):
    assert len(remarks([replace(GROUPS[0], variety=variety), GROUPS[1]], [])) == notes


def rotated(right, fits):
    """Answers in per cent for four classes of 100 samples: some right, more those of the next."""
    left = 100 - right - fits
    shares = [right, fits, left // 2, left - left // 2]
    return [Counter({(k, (k + j) % 4): n for k in range(4) for j, n in enumerate(shares)})]


@pytest.mark.parametrize(
    ("right", "fits", "found"),
    # Guessing is right on 25%, and luck adds 4.3% to it; another order fits from 39.4% on.
    [(28, 60, True), (29, 60, True), (30, 60, False), (20, 41, True), (20, 38, False)],
)
def test_another_order_fits_beyond_what_luck_explains(right, fits, found):
    assert (fitting_order(rotated(right, fits)) is not None) == found


def test_orders_of_more_than_two_thousand_classes_are_not_matched():
    def shifted(n):
        return [Counter({(k, (k + 1) % n): 1 for k in range(n)})]

    assert fitting_order(shifted(2001)) is None
    assert fitting_order(shifted(300)) is not None


def lean(newest, phi, *, noise=(0.5**0.5, 0.0), balanced=(0.5, 0.5), old=(0.0, 0.0)):
    """φ against two groups with these moments, each measured twice with an error of this size."""
    corners, spread = [np.array(old), np.array(newest)], np.array(noise)
    parts = [[corner - spread, corner + spread] for corner in corners]
    return lean_of(np.array(phi), corners, parts, np.array(balanced))


@pytest.mark.parametrize(("apart", "certain"), [(1.9, False), (2.1, True)])
def test_groups_differ_two_standard_errors_apart(apart, certain):
    assert lean((apart, 0.0), (apart / 2, 0.0)).certain == certain


@pytest.mark.parametrize(("beside", "certain"), [(0.9, True), (1.1, False)])
def test_a_phi_further_from_all_mixtures_than_the_groups_are_apart_is_unknown(beside, certain):
    assert lean((1.0, 0.0), (0.5, beside), noise=(0.0, 0.0)).certain == certain


@pytest.mark.parametrize(("height", "counts"), [(0.04, False), (0.06, True)])
def test_directions_in_which_groups_hardly_differ_say_nothing_of_a_share(height, counts):
    found = lean(
        (1.0, height), (0.5, 0.0), old=(-1.0, height), noise=(0.0, 0.1), balanced=(0.75, 0.25)
    )
    assert found.certain
    assert (found.margin > 1.0) == counts


def test_a_group_needs_four_samples():
    def group(samples):
        return [(torch.zeros(samples, 2), torch.arange(samples) % 2)]

    assert [found.samples for found in survey({"old": group(4), "new": group(4)})] == [4, 4]
    with pytest.raises(UserError, match="3 samples"):
        survey({"old": group(4), "new": group(3)})


# What `bnt learn` warns of.


def lesson(after, *, before=(), losses=(), groups=(("cat", "dog", "owl"),)):
    """The concerns about a model that is right on so many of so many images of each class."""

    def answered(rights):
        return [
            (k, k if n < right else (k + 1) % len(rights))
            for k, (right, images) in enumerate(rights)
            for n in range(images)
        ]

    model = SimpleNamespace(
        frozen=None,
        learner=SimpleNamespace(memory=None),
        groups=groups,
        metadata=SimpleNamespace(taught=[SimpleNamespace(classes=groups[-1], more=())]),
        classes=tuple(name for group in groups for name in group),
    )
    found = summarise(
        model, answered(before), answered(after), None, 1, unreadable=(), losses=losses
    )
    return " ".join(found.concerns)


GOOD = [(20, 20), (20, 20), (20, 20)]


@pytest.mark.parametrize(("last", "rose"), [(0.34, False), (0.36, True), (0.5, True)])
def test_a_loss_has_risen_from_one_and_a_half_times_the_lowest_on(last, rose):
    assert ("training loss rose" in lesson(GOOD, losses=(1.0, 0.2, last))) == rose


@pytest.mark.parametrize(("right", "guessed"), [(38, True), (39, False)])
def test_two_standard_deviations_from_guessing_are_evidence(right, guessed):
    # Guessing is right on 33.3% of 300 images, and on 38.8% with luck.
    assert ("do not use it" in lesson([(right, 100)] * 3)) == guessed


@pytest.mark.parametrize(("images", "named"), [(9, False), (10, True)])
def test_a_class_with_ten_images_is_judged_by_itself(images, named):
    found = lesson([(40, 40), (40, 40), (0, images)])
    assert ("Recognised no more often than by guessing" in found) == named


def gated(right, *, images, taken=False):
    """The gate's judgement on a lesson after which so many images of the first of two old classes
    are right, which all were before, and all of the other. The wrong ones are taken for a new class
    or for the other old one."""
    y = torch.cat([torch.zeros(images[0]), torch.ones(images[1])]).long()
    after, among = y.clone(), y.clone()
    after[right : images[0]] = 2 if taken else 1
    among[right : images[0]] = 0 if taken else 1
    return gate.judge(y, y, among, after, ("cat", "dog", "owl"), 2)


@pytest.mark.parametrize(("images", "refused"), [((10, 90), True), ((9, 91), False)])
def test_a_class_with_ten_images_is_judged_by_itself_whether_it_is_forgotten(images, refused):
    found = gated(2, images=images)
    assert ("cat is told apart" in (found.refused or "")) == refused


@pytest.mark.parametrize(
    ("right", "images", "refused"),
    [(7, (9, 10), False), (6, (9, 10), True), (6, (9, 11), False), (4, (9, 11), True)],
)
def test_below_twenty_images_two_may_be_lost_and_then_an_interval_decides(right, images, refused):
    assert (gated(right, images=images).refused is not None) == refused


@pytest.mark.parametrize(("right", "refused"), [(58, False), (50, True)])
def test_new_classes_may_take_a_third_of_a_class_but_for_chance(right, refused):
    found = gated(right, images=(100, 100), taken=True)
    assert (found.refused is not None) == refused
    assert found.fell


@pytest.mark.parametrize(("classes", "named"), [(6, ""), (7, " and 1 more")])
def test_six_classes_are_named_in_a_sentence(classes, named):
    names = tuple(f"class {k}" for k in range(classes + 1))
    found = lesson([(1, 1)], groups=(names,))
    assert "no test images of 'class 1'" in found
    assert found.endswith(f"'class 6'{named}.")


def test_a_threshold_accepts_a_twentieth_of_the_unknown_by_default():
    confidence = torch.linspace(0.999, 0.5, 200, dtype=torch.float64)
    model = SimpleNamespace(
        predict_proba=lambda x: torch.stack([x, 1 - x], 1),
        scores=lambda x: torch.stack([x, 1 - x], 1).log(),
        probabilities=lambda scores: scores.softmax(1),
        confirming=None,
        frozen=None,
    )
    chosen_on = confidence[::2]
    threshold = acceptance(model, confidence).threshold
    assert int((chosen_on > threshold).sum()) == 5


@pytest.mark.parametrize(("accepted", "useless"), [(4, True), (5, False), (6, False)])
def test_a_threshold_that_refuses_most_known_images_is_useless(accepted, useless):
    found = Acceptance(0.5, unknown=None, known=share(torch.arange(10) < accepted))
    with pytest.raises(UserError, match="useless") if useless else nullcontext():
        found.check()


@pytest.mark.parametrize(("unknown", "useless"), [(7, True), (8, True), (6, False)])
def test_a_threshold_that_unknown_images_pass_as_often_is_useless(unknown, useless):
    known, others = (share(torch.arange(10) < passed) for passed in (7, unknown))
    with pytest.raises(UserError, match="useless") if useless else nullcontext():
        Acceptance(0.5, unknown=others, known=known).check()


@pytest.mark.parametrize(
    ("halves", "chosen"),
    [((60, 61), "new"), ((60, 60), "old"), ((50, 70), "old"), ((61, 50), "old")],
)
def test_a_candidate_serves_that_is_better_on_both_halves(halves, chosen):
    assert better("old", {"old": (50, 60), "new": halves}) == chosen


# The verdict on a claim.


def judged(kind):
    """The verdict on a claim of this kind, with a margin of one point where it takes one."""
    claim = {"text": "t", "kind": kind, "metric": "acc", "stream": "seq-cifar10"}
    claim |= {"a": {"method": "er-bnt"}, "b": {"method": "er"}}
    study = Study(
        name="little",
        title="Little",
        methods=("er", "er-bnt"),
        streams=("seq-cifar10",),
        scale={"lite": {"seeds": 6}},
        claims=[claim if kind == "greater" else claim | {"margin": 1.0}],
    )
    records = [*runs("er-bnt", range(60, 66)), *runs("er", range(50, 56))]
    [judgement] = verdicts(study, "lite", grouped(records))
    return judgement


@pytest.mark.parametrize(("p", "verdict"), [(0.0504, "holds"), (0.0506, "suggested")])
def test_a_claim_holds_up_to_a_p_that_is_printed_as_five_per_cent(monkeypatch, p, verdict):
    monkeypatch.setattr("bntricks.report.verdicts.holm", lambda ps: [p])
    assert judged("greater").verdict == verdict


@pytest.mark.parametrize(
    ("kind", "low", "high", "verdict"),
    [
        ("greater", 0.004, 2.0, "undecided"),
        ("greater", 0.006, 2.0, "holds"),
        ("greater", -2.0, -0.004, "undecided"),
        ("greater", -2.0, -0.006, "does not hold"),
        ("less", 0.0, 0.994, "holds"),
        ("less", 0.0, 0.996, "undecided"),
        ("less", 1.004, 2.0, "undecided"),
        ("less", 1.006, 2.0, "does not hold"),
        ("similar", -0.994, 0.994, "holds"),
        ("similar", -0.996, 0.5, "undecided"),
        ("similar", -0.5, 0.996, "undecided"),
        ("similar", 1.004, 2.0, "undecided"),
        ("similar", 1.006, 2.0, "does not hold"),
        ("similar", -2.0, -1.006, "does not hold"),
        ("greater", -0.004, 0.004, "no difference"),
        ("greater", -0.006, 0.004, "undecided"),
    ],
)
def test_an_interval_decides_as_it_is_printed(monkeypatch, kind, low, high, verdict):
    found = Estimate((low + high) / 2, low, high, 0.001, 6)
    monkeypatch.setattr("bntricks.report.verdicts.estimate", lambda *given, **how: found)
    assert judged(kind).verdict == verdict


# A run that has lost its way.


@pytest.mark.parametrize(("accuracy", "chance"), [([75.0, None], True), ([75.1, None], False)])
def test_half_as_much_again_as_guessing_is_chance(accuracy, chance):
    stream = [SimpleNamespace(classes=(0, 1)), SimpleNamespace(classes=(2, 3))]
    assert is_chance(accuracy, stream) == chance
    assert is_chance([own / 2 for own in (accuracy[0], accuracy[0])], stream) == chance


@pytest.mark.parametrize(("times", "warnings"), [(9.9, 0), (10.1, 1)])
def test_ten_times_the_loss_of_guessing_does_not_come_down_again(monkeypatch, times, warnings):
    def learned(learner, x, y, *, progress, **how):
        progress.epoch_losses.append(times * log(4))

    monkeypatch.setattr("bntricks.runs.train.learn_epochs", learned)
    monkeypatch.setattr("bntricks.runs.train.is_chance", lambda accuracy, stream: True)
    x, y = np.zeros((16, 8, 8), np.uint8), np.arange(16) // 4
    told = []
    config = Config(method="sgd", width=2, blocks=1, stages=1)
    train(config, from_arrays(x, y, x, y), sink=told.append)
    assert sum(event["event"] == "warning" for event in told) == warnings


# A device that computes, and what it has room for.


@pytest.mark.parametrize(("too_far", "outcome"), [(0.045, "passed"), (0.055, "failed")])
def test_a_device_is_close_within_a_twentieth_of_the_way(monkeypatch, too_far, outcome):
    lessons = checks._lessons

    def further(config, stream):
        learner, waits = lessons(config, stream)
        monkeypatch.setattr(checks, "_lessons", lessons)  # the CPU's turn
        start = checks.build(*checks._small()).net.state_dict()
        for name, value in learner.net.state_dict().items():
            if value.is_floating_point():
                value.add_(too_far * (value - start[name]))
        return learner, waits

    monkeypatch.setattr(checks, "_lessons", further)
    [row] = check_on("cpu", parts=["methods"], methods=["sgd"])
    assert row.outcome == outcome
    assert row.difference == pytest.approx(too_far, rel=1e-3)


@pytest.mark.parametrize(("free", "kind"), [(1999, "cpu"), (2000, "cuda")])
def test_images_go_to_a_device_that_keeps_half_of_its_memory(free, kind):
    with pretend("cuda", free_bytes=free):
        assert near(torch.zeros(250), torch.device("cuda")).device.type == kind


# The learning rate.


def test_one_cycle_warms_up_during_the_first_tenth():
    assert one_cycle(0.0) == pytest.approx(1 / 21)
    assert one_cycle(0.0999) < one_cycle(0.1) == 1.0
    assert one_cycle(0.55) == pytest.approx((1 + cos(pi / 2)) / 2)


def test_the_rate_drops_after_half_and_after_three_quarters():
    rates = [steps(done) for done in (0.0, 0.499, 0.5, 0.749, 0.75, 0.99)]
    assert rates == pytest.approx([1.0, 1.0, 0.1, 0.1, 0.01, 0.01])
