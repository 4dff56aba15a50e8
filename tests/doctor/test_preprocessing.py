"""Images that are prepared otherwise than in training are told from a sick φ, and the reverse."""

import copy

import pytest
import torch
from torch import nn

from bntricks import diagnose, mixed, moments, recalibrate
from bntricks.doctor import repair
from bntricks.doctor.preprocessing import InputChange, explaining_change
from bntricks.norm import layers, phi
from helpers.doctor_data import groups
from helpers.doctor_images import IMAGENET, RAW, image_groups, network, trained


@pytest.fixture(scope="module")
def healthy():
    return trained(IMAGENET)


def drifted(net):
    """The same network, whose φ went on to follow the new classes alone."""
    net = copy.deepcopy(net).train()
    with torch.no_grad():
        for _ in range(20):
            for x, _ in image_groups(IMAGENET, seed=0)["new"]:
                net(x)
    return net.eval()


def shifted(net, *, which=None, spread=2.0, ratio=1.0):
    """The same network, with damage of φ in these layers, each channel for itself."""
    net, random = copy.deepcopy(net), torch.Generator().manual_seed(1)
    for name, layer in layers(net).items():
        if which is None or name in which:
            error = torch.randn(layer.running_mean.shape, generator=random)
            layer.running_mean += spread * error * layer.running_var.sqrt()
            layer.running_var *= ratio
    return net


def test_a_wrong_normalisation_is_blamed_and_the_right_one_is_named(healthy):
    diagnosis = diagnose(healthy, image_groups(RAW), normalised=RAW)
    change = diagnosis.input_change
    assert diagnosis.verdict.cost == "input"
    assert diagnosis.as_is.all < 50
    assert (change.known, change.mean, change.std) == ("ImageNet", *IMAGENET)
    assert change.changed_distance < 0.15 < 1 < change.distance
    assert "do not recalibrate" in diagnosis.verdict.advice
    right = image_groups(IMAGENET)["old"][0][0]
    assert torch.allclose(change(image_groups(RAW)["old"][0][0]), right, atol=1e-5)


def test_an_unknown_normalisation_is_estimated():
    own = ((0.3, 0.4, 0.35), (0.4, 0.45, 0.5))
    net = trained(own)
    recalibrate(net, mixed(image_groups(own, seed=0)))
    change = diagnose(net, image_groups(IMAGENET), normalised=IMAGENET).input_change
    assert change.known is None
    assert change.mean == pytest.approx(own[0], abs=0.05)
    assert change.std == pytest.approx(own[1], rel=0.1)


def test_without_a_normalisation_the_change_of_the_input_is_said(healthy):
    change = diagnose(healthy, image_groups(RAW)).input_change
    assert change.mean is None
    scale, shift = [1 / s for s in IMAGENET[1]], [-m / s for m, s in zip(*IMAGENET, strict=True)]
    assert change.scale == pytest.approx(scale, rel=0.2)
    assert change.shift == pytest.approx(shift, abs=0.3)


def test_what_phi_was_set_by_is_found_to_the_digit():
    """With padding, which a constant does not pass through unchanged, and a bias."""
    net, data = network().eval(), image_groups(IMAGENET)
    recalibrate(net, mixed(data))
    change = InputChange((0.2, 0.3, 0.25), (1.0, -0.5, 0.2))
    wrong = {name: [((x - 1) * 3, y) for x, y in batches] for name, batches in data.items()}
    found = moments(net, (change(x) for x in mixed(wrong)))
    for name, layer in layers(net).items():
        layer.running_mean.copy_(found[name].mean)
        layer.running_var.copy_(found[name].var)
    measured = diagnose(net, wrong, held_out=wrong).layers
    again = explaining_change(net, measured, lambda: mixed(wrong), None)
    assert again.scale == pytest.approx(change.scale, rel=0.01)
    assert again.shift == pytest.approx(change.shift, abs=0.01)
    assert again.changed_distance < 0.01


@pytest.mark.parametrize(
    ("damage", "least"),
    [
        (drifted, 2),
        (shifted, 10),
        (lambda net: shifted(net, which=["1"]), 10),
        (lambda net: shifted(net, spread=0.0, ratio=30.0), 5),
        (lambda net: shifted(net, which=["4"]), 5),
    ],
    ids=["followed the newest", "shifted", "first layer", "variances", "second layer"],
)
def test_a_sick_phi_is_not_taken_for_a_wrong_input(healthy, damage, least):
    diagnosis = diagnose(damage(healthy), image_groups(IMAGENET), normalised=IMAGENET)
    assert diagnosis.input_change is None
    assert diagnosis.best.all_difference.points > least
    assert diagnosis.verdict.cost not in ("none", "input")


def test_a_wrong_input_is_noticed_though_phi_is_sick_too(healthy):
    change = diagnose(drifted(healthy), image_groups(RAW), normalised=RAW).input_change
    assert change is not None
    assert change.std == pytest.approx(IMAGENET[1], rel=0.5)


def test_a_right_normalisation_is_left_alone(healthy):
    assert diagnose(healthy, image_groups(IMAGENET), normalised=IMAGENET).input_change is None
    raw = diagnose(trained(RAW), image_groups(RAW), normalised=RAW)
    assert (raw.input_change, raw.verdict.cost) == (None, "none")


def test_a_change_that_gains_nothing_is_not_named(healthy):
    """The first layer is far from φ, and the rest of the network does not mind."""
    net = copy.deepcopy(healthy)
    with torch.no_grad():
        net[-1].weight.zero_()
    assert diagnose(net, image_groups(RAW), normalised=RAW).input_change is None


def test_what_is_not_affine_or_no_image_is_not_examined(healthy):
    relu_first = nn.Sequential(healthy[0], nn.ReLU(), *healthy[1:])
    assert diagnose(relu_first, image_groups(RAW), normalised=RAW).input_change is None
    vectors = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    far = {name: [(x * 9 + 4, y) for x, y in batches] for name, batches in groups().items()}
    recalibrate(vectors, mixed(groups()))
    assert diagnose(vectors, far).input_change is None


def test_grey_images_have_normalisations_of_their_own():
    fashion = ((0.286,), (0.353,))

    def own(normalised, seed=1):
        data = image_groups(RAW, seed=seed)
        [mean], [std] = normalised
        return {n: [((x[:, :1] - mean) / std, y) for x, y in part] for n, part in data.items()}

    net, data = network(channels=1), own(fashion, seed=0)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(45):
        parts = [batches[step % len(batches)] for batches in data.values()]
        x, y = (torch.cat(part) for part in zip(*parts, strict=True))
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    change = diagnose(net.eval(), own(((0.0,), (5.0,))), normalised=((0.0,), (5.0,))).input_change
    assert (change.mean, change.known) == (fashion[0], "Fashion-MNIST")
    assert diagnose(net, own(fashion), normalised=fashion).input_change is None


def test_a_repair_says_so_too(healthy):
    net = copy.deepcopy(healthy)
    before = phi(net)
    repaired = repair(net, image_groups(RAW), normalised=RAW)
    assert repaired.input_change.known == "ImageNet"
    assert not torch.equal(phi(net)["1"]["mean"], before["1"]["mean"])  # the caller decides
    assert repair(net, image_groups(RAW), normalised=RAW).input_change is None


@pytest.mark.parametrize(("off", "named"), [(0.06, True), (0.3, False)])
def test_a_known_normalisation_is_named_if_phi_is_nearly_as_near(off, named):
    """φ of inputs a little brighter than ImageNet's normalisation makes them."""
    net, data = network().eval(), image_groups(IMAGENET)
    brighter = {name: [(x + off, y) for x, y in part] for name, part in data.items()}
    with torch.no_grad():  # so that all channels see brightness alike
        net[0].weight.abs_()
    recalibrate(net, mixed(brighter))
    raw = image_groups(RAW)
    measured = diagnose(net, raw, held_out=raw).layers
    change = explaining_change(net, measured, lambda: mixed(raw), RAW)
    assert (change.known == "ImageNet") == named


@pytest.mark.parametrize(
    ("normalised", "noise", "explained"), [(IMAGENET, 0.2, True), (RAW, 1, False)]
)
def test_a_change_that_leaves_half_of_the_distance_explains_nothing(normalised, noise, explained):
    """With a single normalised layer, so that no later one decides."""
    first, norm = network()[:2]
    net = nn.Sequential(
        *(first, norm, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 4))
    ).eval()
    recalibrate(net, mixed(image_groups(normalised)))
    random = torch.Generator().manual_seed(0)
    norm.running_var *= (noise * torch.randn(12, generator=random)).exp()
    norm.running_mean += noise * torch.randn(12, generator=random) * norm.running_var.sqrt()
    raw = image_groups(RAW)
    measured = diagnose(net, raw, held_out=raw).layers
    found = explaining_change(net, measured, lambda: mixed(raw), RAW)
    assert (found is not None) == explained
