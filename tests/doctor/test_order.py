"""Outputs in a wrong order are noticed, and luck is not taken for an order."""

from collections import Counter
from html import escape

import pytest
import torch

from bntricks import diagnose, mixed, recalibrate
from bntricks.doctor import repair
from bntricks.doctor.page import verdict_html
from bntricks.doctor.verdict import fitting_order
from helpers.doctor_data import groups, network


def answers(order, count=20, right=0.8, classes=4, seed=0):
    """Pairs of label and answer of a network whose output for a class is at another place."""
    random = torch.Generator().manual_seed(seed)
    pairs = Counter()
    for label in range(classes):
        for _ in range(count):
            known = torch.rand((), generator=random) < right
            other = torch.randint(classes, (), generator=random)
            pairs[label, order[label] if known else int(other)] += 1
    return pairs


def test_an_order_that_fits_is_found():
    found = fitting_order([answers((2, 0, 3, 1))])
    assert found.labels == (1, 3, 0, 2)  # output 0 is what is labelled 1
    assert found.accuracy < 25
    assert found.fitting_accuracy > 75


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("right", "order"), [(0.8, (0, 1, 2, 3)), (0.0, (2, 0, 3, 1))])
def test_a_network_in_order_and_one_that_guesses_are_left_alone(right, order, seed):
    assert fitting_order([answers(order, right=right, seed=seed)]) is None


def test_answers_that_are_not_finite_fit_nothing():
    assert fitting_order([Counter({(0, -1): 9, (1, -1): 9})]) is None


def test_the_diagnosis_says_so_and_has_the_order():
    net, data = network(), groups()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(10):
        for pair in zip(data["old"], data["new"], strict=True):
            x, y = (torch.cat(part) for part in zip(*pair, strict=True))
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimiser.step()
    recalibrate(net, mixed(data))
    assert diagnose(net, data).fitting_order is None
    shifted = {name: [(x, (y + 1) % 4) for x, y in batches] for name, batches in data.items()}
    diagnosis = diagnose(net, shifted)
    assert diagnosis.fitting_order == (1, 2, 3, 0)
    first, second = str(diagnosis).splitlines()[:2]
    assert first.startswith("The outputs seem to be in the wrong order")
    assert second == diagnosis.verdict.headline
    warning, headline = (verdict_html(diagnosis).index(escape(line)) for line in (first, second))
    assert warning < headline
    assert repair(net, shifted).order.labels == (1, 2, 3, 0)
    assert repair(net, data).order is None
