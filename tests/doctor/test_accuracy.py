"""Counterfactual accuracies: counted by hand, paired over samples, with honest intervals."""

import json
import math
from dataclasses import astuple

import numpy as np
import pytest
import torch
from torch import nn

from bntricks import diagnose, mixed, moments, recalibrate, swapped
from bntricks.doctor import repair
from bntricks.doctor.accuracy import Tally, paired_difference
from bntricks.doctor.groups import shuffled
from helpers.doctor_data import groups, network


def tally(samples, gained, lost):
    """Of a group with one class, or with several."""
    rows = [np.array([np.zeros_like(n), n]).reshape(2, -1) for n in (samples, gained, lost)]
    return Tally(np.atleast_1d(samples), *rows)


@pytest.fixture(scope="module")
def biased():
    """A network that learned from balanced batches, and whose φ then followed the new group."""
    data = groups(batches=12)
    net = network().train()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(20):
        for step in zip(*data.values(), strict=True):
            optimiser.zero_grad()
            x, y = (torch.cat(part) for part in zip(*step, strict=True))
            nn.functional.cross_entropy(net(x), y).backward()
            optimiser.step()
    with torch.no_grad():
        for x, _ in data["new"]:
            net(x)
    return net, data


def test_accuracies_are_those_of_swapping_by_hand(biased):
    net, data = biased
    diagnosis = diagnose(net, data, held_out=data)
    balanced = moments(net, mixed(data))
    net.eval()
    for tried, statistics in ((diagnosis.as_is, {}), (diagnosis.balanced, balanced)):
        with swapped(net, statistics), torch.no_grad():
            for name, batches in data.items():
                right = torch.cat([net(x).argmax(1) == y for x, y in batches])
                assert tried.accuracy[name] == pytest.approx(100 * right.double().mean().item())
    names = [tried.statistics for tried in diagnosis.counterfactuals]
    shares = [f"{share}% newest" for share in (0, 20, 40, 60, 80, 100)]
    assert names == ["as it is", "balanced", *shares]
    for share, name in ((0, "old"), (100, "new")):
        tried = next(
            each for each in diagnosis.counterfactuals if each.statistics[:-8] == str(share)
        )
        with swapped(net, moments(net, (x for x, _ in shuffled(data[name])))), torch.no_grad():
            right = torch.cat([net(x).argmax(1) == y for x, y in data[name]])
        assert tried.accuracy[name] == pytest.approx(100 * right.double().mean().item(), abs=2)


def test_the_cost_is_found_named_and_gone_after_recalibration(biased):
    net, data = biased
    diagnosis = diagnose(net, data)
    gain = diagnosis.balanced.all_difference
    assert gain.low > 0
    assert gain.points == pytest.approx(diagnosis.balanced.all - diagnosis.as_is.all)
    cost = f"BatchNorm statistics alone cost this model {gain.points:.1f} points over all classes"
    assert diagnosis.verdict.headline.startswith(cost)
    assert diagnosis.verdict.cost == "all"
    assert "φ leans towards the newest group (new)" in str(diagnosis)
    kept = {name: value.clone() for name, value in net.state_dict().items()}
    recalibrate(net, mixed(data))
    after = diagnose(net, data)
    net.load_state_dict(kept)
    assert after.verdict.cost == "none"
    assert after.verdict.headline.startswith("BatchNorm statistics have no measurable cost")
    assert "φ does not lean" in str(after)
    assert after.as_is.all > diagnosis.as_is.all + 5


def test_answers_count_every_sample_by_the_group_of_its_answer(biased):
    net, data = biased
    as_is = diagnose(net, data, held_out=data).as_is
    net.eval()
    x = torch.cat([x for x, _ in data["old"]])
    with torch.no_grad():
        new = int((net(x).argmax(1) >= 2).sum())
    assert as_is.answers[0] == (len(x) - new, new, 0)
    assert sum(as_is.answers[1]) == len(x)


def test_classes_of_no_group_are_counted_apart_and_shared_classes_not_at_all(biased):
    net, data = biased
    fewer = {"old": [(x[y == 0], y[y == 0]) for x, y in data["old"]], "new": data["new"]}
    answers = diagnose(net, fewer, held_out=fewer).as_is.answers
    assert sum(row[2] for row in answers) > 0
    domains = {"day": data["old"], "night": [(x + 1, y) for x, y in data["old"]]}
    diagnosis = diagnose(net, domains)
    assert diagnosis.as_is.answers is None
    assert "taken for" not in str(diagnosis)


def test_scores_that_are_not_finite_are_wrong_answers_of_no_group(biased):
    net, data = biased

    def scores(net, x):
        return net(x) * float("nan")

    as_is = diagnose(net, data, scores=scores).as_is
    assert as_is.all == 0
    assert all(row[:2] == (0, 0) for row in as_is.answers)


def test_old_and_all_count_classes_alike_whatever_the_samples(biased):
    net, data = biased
    three = {
        "zero": [(x[y == 0], y[y == 0]) for x, y in data["old"]],
        "one": [(x[y == 1][:4], y[y == 1][:4]) for x, y in data["old"]],
        "new": data["new"],
    }
    as_is = diagnose(net, three).as_is
    zero, one, new = as_is.accuracy.values()
    assert as_is.old == pytest.approx((zero + one) / 2)
    assert as_is.all == pytest.approx((zero + one + 2 * new) / 4)
    assert as_is.newest == new


def test_the_interval_is_walds_for_paired_shares_after_adding_half_a_sample():
    difference = paired_difference(np.array([1.0]), [tally(100, 20, 5)], 1)
    shift, n = 15 / 102, 102
    half = 1.959964 * math.sqrt((26 / n - shift**2) / n)
    assert difference.points == pytest.approx(15.0)
    assert difference.low == pytest.approx(100 * (shift - half))
    assert difference.high == pytest.approx(100 * (shift + half))
    assert difference.sign == 1
    assert paired_difference(np.array([1.0]), [tally(100, 5, 20)], 1).sign == -1


def test_classes_with_equally_many_samples_have_the_interval_of_all_samples_together():
    weights = np.array([0.25, 0.75])
    by_class = [tally([30, 30, 30], [9, 1, 4], [0, 3, 2]), tally([8, 8], [0, 1], [5, 1])]
    together = [tally(90, 14, 5), tally(16, 1, 6)]
    own, pooled = (paired_difference(weights, each, 1) for each in (by_class, together))
    assert astuple(own) == pytest.approx(astuple(pooled), rel=1e-12)


def test_a_class_of_few_samples_makes_the_interval_as_wide_as_it_should_be():
    """The mean of two differences, of which the second rests on 20 samples alone."""
    difference = paired_difference(np.ones(1), [tally([180, 20], [0, 6], [0, 2])], 1)
    alone = paired_difference(np.ones(1), [tally(20, 6, 2)], 1)
    assert difference.points == pytest.approx(alone.points / 2)
    widths = [each.high - each.low for each in (difference, alone)]
    assert widths[0] == pytest.approx(widths[1] / 2, rel=0.05)


@pytest.mark.parametrize("samples", [(40, 40), (180, 20), (15, 200)])
def test_the_interval_of_unequal_classes_covers_the_truth_as_often_as_it_says(samples):
    generator = np.random.default_rng(0)
    changes = ((0.05, 0.02, 0.93), (0.3, 0.1, 0.6))
    truth, covered, rounds = 100 * (0.03 + 0.2) / 2, 0, 2000
    draws = [
        generator.multinomial(n, p, size=rounds) for n, p in zip(samples, changes, strict=True)
    ]
    for one, other in zip(*draws, strict=True):
        gained, lost, _ = zip(one, other, strict=True)
        difference = paired_difference(np.ones(1), [tally(samples, gained, lost)], 1)
        covered += difference.low <= truth <= difference.high
    assert 0.93 < covered / rounds < 0.99


class Constant(nn.Module):
    """Answers class 0, whatever it sees."""

    def __init__(self):
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(6), nn.Linear(6, 4)
        nn.init.zeros_(self.head.weight)
        self.head.bias = nn.Parameter(torch.tensor([1.0, 0, 0, 0]))

    def forward(self, x):
        return self.head(self.norm(x))


def test_classes_of_a_group_count_the_same_however_many_samples_they_have():
    generator = torch.Generator().manual_seed(0)
    y = (torch.arange(200) >= 180).long()
    old = [(torch.randn(200, 6, generator=generator), y)]
    data = {"old": old, "new": [(torch.randn(40, 6, generator=generator), y[:40] + 2)]}
    diagnosis = diagnose(Constant(), data)
    assert diagnosis.as_is.accuracy == {"old": 50, "new": 0}
    assert diagnosis.as_is.old == pytest.approx(50)
    assert diagnosis.as_is.all == pytest.approx(100 / 3)
    assert diagnosis.remedies[0].gap == pytest.approx(-50)
    assert repair(Constant(), data).after.old == pytest.approx(50)


def test_old_classes_taken_for_new_ones_count_the_same_too():
    net = Constant()
    data = {
        "old": [(torch.randn(200, 6), (torch.arange(200) >= 180).long() * 2)],
        "new": [(torch.randn(40, 6), torch.ones(40, dtype=torch.long))],
    }
    data["old"][0][0][data["old"][0][1] == 2] += 100

    def scores(net, x):
        return net(x) + (x.mean(1, keepdim=True) > 50) * torch.tensor([0, 9.0, 0, 0])

    as_is = diagnose(net, data, scores=scores).as_is
    assert as_is.old_as_newest == pytest.approx(50)
    assert as_is.answers[0] == (90, 10, 0)


def test_few_samples_or_none_that_changed_are_not_certain():
    none = paired_difference(np.array([1.0]), [tally(10, 0, 0)], 1)
    assert none.low < 0 < none.high
    assert none.sign == 0
    assert paired_difference(np.array([1.0]), [tally(3, 1, 0)], 1).sign == 0


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(0)
    truth, covered, rounds = 100 * (0.15 - 0.08), 0, 2000
    for gained, lost, _ in generator.multinomial(80, (0.15, 0.08, 0.77), size=rounds):
        difference = paired_difference(np.array([1.0]), [tally(80, gained, lost)], 1)
        covered += difference.low <= truth <= difference.high
    assert 0.93 < covered / rounds < 0.98


def test_json_is_one_line_of_numbers_without_nan(biased):
    net, data = biased
    text = diagnose(net, data).to_json()
    assert "\n" not in text
    values = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert values["layers"][0]["distance"] > 0
    assert values["verdict"]["cost"] == "all"
    assert [tried["statistics"] for tried in values["counterfactuals"]][:2] == [
        "as it is",
        "balanced",
    ]
    alike = {"old": data["old"][:6], "new": data["old"][6:]}
    assert json.loads(diagnose(net, alike).to_json())["layers"][0]["shares"] is None
