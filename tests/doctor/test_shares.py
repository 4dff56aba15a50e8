"""φ with more and more of the newest classes: the best is chosen on one half of the samples, and
measured on the other, balanced or not."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from bntricks import diagnose, mixed, moments, recalibrate
from bntricks.doctor import repair
from bntricks.doctor.balanced import balanced_batches
from bntricks.doctor.groups import Group, survey
from bntricks.doctor.shares import SHARES, other_shares
from bntricks.doctor.verdict import judge
from bntricks.norm import phi, set_phi
from helpers.doctor_data import groups, network


def taught(net, data, *, newest):
    """Train the weights alone, under the φ that data with this share of the newest classes has."""
    optimiser = torch.optim.Adam(net.eval().parameters(), lr=0.01)

    def follow():
        joint = balanced_batches(survey(data), data, 64, newest=newest)
        found = {n: {"mean": m.mean, "var": m.var} for n, m in moments(net, joint).items()}
        set_phi(net, found)
        return found

    for number, step in enumerate([*zip(*data.values(), strict=True)] * 6):
        if number % 4 == 0:
            follow()
        x, y = (torch.cat(part) for part in zip(*step, strict=True))
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return follow()


@pytest.fixture(scope="module")
def unbalanced():
    """A network whose weights rely on a φ of the newest classes, and which has another."""
    data, net = groups(batches=16), network()
    right = taught(net, data, newest=SHARES[-1])
    recalibrate(net, mixed({"old": data["old"], "also old": data["old"]}))
    return net, data, right


def test_the_best_phi_is_not_always_the_balanced_one(unbalanced):
    net, data, _ = unbalanced
    diagnosis = diagnose(net, data)
    assert diagnosis.best.statistics == "100% newest"
    assert diagnosis.best.all_difference.points > diagnosis.balanced.all_difference.points + 3
    assert diagnosis.best is max(diagnosis.counterfactuals, key=lambda each: each.all)
    gain = diagnosis.best.all_difference
    assert diagnosis.verdict.cost != "none"
    assert f"{gain.signed} points" in diagnosis.verdict.advice
    assert "100% newest" in diagnosis.verdict.advice
    assert "100% newest" in diagnosis.verdict.headline


def test_a_repair_sets_the_best_phi_or_the_balanced_one_on_request(unbalanced):
    net, data, _ = unbalanced
    before = phi(net)
    best = repair(net, data)
    assert best.after.statistics == "100% newest"
    assert best.after.all == pytest.approx(diagnose(net, data).as_is.all)
    set_phi(net, before)
    balanced = repair(net, data, only_balanced=True)
    assert balanced.after.statistics == "balanced"
    assert balanced.after.all < best.after.all - 3
    assert balanced.before == best.before
    set_phi(net, before)


def test_a_phi_that_nothing_beats_stays(unbalanced):
    net, data, right = unbalanced
    before = phi(net)
    set_phi(net, right)
    diagnosis = diagnose(net, data)
    assert diagnosis.best.statistics == "as it is"
    assert diagnosis.verdict.cost == "none"
    assert diagnosis.verdict.advice.startswith("Leave φ as it is")
    kept = phi(net)
    assert repair(net, data).after.statistics == "as it is"
    for name, own in phi(net).items():
        assert torch.equal(own["mean"], kept[name]["mean"])
    set_phi(net, before)


def test_shares_that_make_no_difference_leave_the_balanced_one():
    data, net = groups(batches=8), network().train()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(20):
        for step in zip(*data.values(), strict=True):
            x, y = (torch.cat(part) for part in zip(*step, strict=True))
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimiser.step()
    assert diagnose(net, data).best.statistics == "balanced"


@pytest.mark.parametrize("share", SHARES)
def test_batches_hold_the_share_of_the_newest_classes(share):
    x = {name: torch.full((40, 1), float(k)) for k, name in enumerate(("one", "two", "three"))}
    labels = {"one": (0, 1), "two": (2,), "three": (3, 4)}
    data = {
        name: [(x[name], torch.tensor(own).repeat(40 // len(own)))] for name, own in labels.items()
    }
    drawn = torch.cat(list(balanced_batches(survey(data), data, 30, newest=share)))
    shares = [float((drawn == k).double().mean()) for k in range(3)]
    old = (1 - share) / 3
    assert shares == pytest.approx([2 * old, old, share], abs=0.01)
    assert len(drawn) >= 120


def test_a_share_like_the_balanced_one_is_not_tried_twice():
    newest = Group("new", 10, (4,))
    assert len(other_shares([Group("old", 10, (0, 1, 2, 3)), newest])) == len(SHARES) - 1
    assert len(other_shares([Group("old", 10, (0,)), newest])) == len(SHARES)


def test_a_disease_of_small_shifts_is_not_said_to_be_in_no_layer():
    """Every layer is nearer than counts as far, and together they cost much."""
    found = diagnose(network(), groups(batches=2))
    near = tuple(replace(layer, kl=0.01) for layer in found.layers)
    none = replace(found.balanced.all_difference, points=0.0, low=-1.0, high=1.0)
    gain = replace(none, points=50.0, low=45.0, high=55.0)
    rest = {"old_difference": none, "newest_difference": none}
    sick = replace(found.balanced, all_difference=gain, **rest)
    assert "0 of 2 layers" not in " ".join(judge(found.groups, near, found.as_is, sick).evidence)
    sound = judge(found.groups, near, found.as_is, replace(sick, all_difference=none))
    assert "0 of 2 layers" in " ".join(sound.evidence)
