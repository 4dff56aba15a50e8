"""Is it φ or the head? What was spoiled is what closes the gap when it is put right."""

import copy
import json

import pytest
import torch
from torch import nn

from bntricks.doctor import Difference, Remedy, diagnose
from bntricks.doctor.charts import figures
from bntricks.doctor.gap import AS_IT_IS, HEAD, PHI, PRIOR, in_words
from bntricks.norm import recalibrate
from helpers.doctor_data import assert_unchanged, groups, network, snapshot

pytestmark = pytest.mark.law


@pytest.fixture(scope="module")
def sound():
    """A network that knows all four classes, with balanced φ."""
    torch.manual_seed(0)
    net, data = network(), groups(batches=20)
    optimiser = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(6):
        for (x, y), (u, v) in zip(data["old"], data["new"], strict=True):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(torch.cat([x, u])), torch.cat([y, v])).backward()
            optimiser.step()
    recalibrate(net, [torch.cat([x for own in data.values() for x, _ in own])])
    return net.eval()


def remedies(net):
    found = diagnose(net, groups(batches=12))
    return found, {each.name: each for each in found.remedies}


def test_a_head_that_favours_new_classes_is_closed_by_the_head_and_not_by_phi(sound):
    net = copy.deepcopy(sound)
    with torch.no_grad():
        net[-1].weight[2:] *= 6
    before = snapshot(net)
    found, by_name = remedies(net)
    assert_unchanged(net, before)
    assert by_name[AS_IT_IS].gap > 5
    assert by_name[HEAD].closed.sign == 1
    assert by_name[HEAD].closed.points > 3 * abs(by_name[PHI].closed.points)
    assert by_name[HEAD].gap == pytest.approx(
        by_name[AS_IT_IS].gap - by_name[HEAD].closed.points, abs=1e-6
    )
    assert "points ahead of the old ones" in str(found)


def test_a_bias_is_seen_by_the_prior_alone(sound):
    """Weight alignment leaves biases as they are."""
    net = copy.deepcopy(sound)
    with torch.no_grad():
        net[-1].bias[2:] += 6
    _, by_name = remedies(net)
    assert by_name[PRIOR].closed.points > 5
    assert by_name[PRIOR].closed.sign == 1
    assert by_name[PRIOR].closed.points > by_name[HEAD].closed.points + 5


def test_what_statistics_of_one_group_have_done_is_put_right_by_phi(sound):
    """Here they cost the very group they are of, so the gap has the other sign."""
    net = copy.deepcopy(sound)
    recalibrate(net, [torch.cat([x for x, _ in groups(batches=20)["new"]])])
    found, by_name = remedies(net)
    assert by_name[AS_IT_IS].gap < -20
    assert abs(by_name[PHI].gap) < 10
    assert abs(by_name[HEAD].gap) > 20
    assert "do not lose to the newest ones" in str(found)
    assert found.balanced.all_difference == by_name[PHI].all_difference  # both ways of counting


def test_a_remedy_that_closes_more_than_the_gap_is_said_to_reverse_it():
    none, some, more = (Difference(n, n - 1, n + 1) for n in (0.0, 4.0, 35.0))
    left = {AS_IT_IS: (10.0, none), PHI: (-25.0, more), HEAD: (6.0, some), PRIOR: (10.0, none)}
    text = in_words([Remedy(name, gap, closed, none) for name, (gap, closed) in left.items()])
    assert "balanced φ 35.0 (34.0 to 36.0), which reverses it to -25.0; aligned head 4.0" in text
    assert text.count("reverses") == 1


def test_the_split_is_in_the_json_and_in_one_chart(sound):
    found, _ = remedies(sound)
    assert [row["name"] for row in json.loads(found.to_json())["remedies"]] == [
        *(AS_IT_IS, PHI, HEAD, PRIOR, f"{PHI} and {HEAD}", f"{PHI} and {PRIOR}")
    ]
    (figure,) = [each for each in figures(found) if each.name == "gap"]
    assert next(row["remedy"] for row in figure.rows) == PHI
    assert all(row["low"] <= row["closed"] <= row["high"] for row in figure.rows)


def test_scores_that_are_not_the_heads_have_no_split(sound):
    found = diagnose(sound, groups(), scores=lambda net, x: -net(x).square())
    assert found.remedies == ()
    assert "gap" not in {each.name for each in figures(found)}
    assert "points ahead" not in str(found)


def test_groups_that_share_classes_have_no_split(sound):
    data = groups(per_group=((0, 1, 2, 3), (2, 3)))
    assert diagnose(sound, data).remedies == ()
