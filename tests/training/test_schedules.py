"""The learning rate over a task, and the batches of its epochs."""

import pytest

from bntricks.methods import make
from bntricks.training.learner import Learner
from bntricks.training.loop import learn_epochs
from bntricks.training.optimisers import GradientDescent
from bntricks.training.progress import Progress
from bntricks.training.schedules import constant, cosine, one_cycle, steps
from helpers.tiny import network, whole

pytestmark = pytest.mark.law


def learned(monkeypatch, epochs=5, **protocol):
    """The rate and the batch size of every step."""
    rates, sizes = [], []
    step, observe = GradientDescent.step, Learner.observe
    monkeypatch.setattr(
        GradientDescent, "step", lambda self: (rates.append(self.lr), step(self))[1]
    )
    monkeypatch.setattr(
        Learner,
        "observe",
        lambda self, x, y, **how: sizes.append(len(y)) or observe(self, x, y, **how),
    )
    learner = Learner(network(), make("er-bnt"), lr=0.1, batch=5, **protocol)
    x, y = whole(1)
    learner.begin([0, 1], x, y)
    progress = Progress(lambda event: None, total=0)
    learn_epochs(learner, x, y, epochs=epochs, progress=progress)
    assert learner.state.optimiser.lr == 0.1
    assert len(progress.epoch_losses) == epochs
    return rates, sizes, len(y)


def test_the_paper_has_one_rate(monkeypatch):
    rates, _, _ = learned(monkeypatch, schedule=constant)
    assert set(rates) == {0.1}


def test_one_cycle_warms_up_and_ends_near_nothing(monkeypatch):
    rates, _, _ = learned(monkeypatch, epochs=20, schedule=one_cycle)
    highest = rates.index(max(rates))
    assert 0.09 < max(rates) <= 0.1
    assert 0 < highest <= 0.15 * len(rates)
    assert rates[: highest + 1] == sorted(rates[: highest + 1])
    assert rates[highest:] == sorted(rates[highest:], reverse=True)
    assert 0 < rates[-1] < 0.001


def test_a_cosine_goes_down_from_the_whole_rate_to_nothing(monkeypatch):
    rates, _, _ = learned(monkeypatch, epochs=20, schedule=cosine)
    assert rates[0] == 0.1
    assert rates == sorted(rates, reverse=True)
    assert rates[len(rates) // 2] == pytest.approx(0.05, rel=0.01)
    assert 0 < rates[-1] < 0.001


def test_steps_drop_to_a_tenth_and_to_a_hundredth(monkeypatch):
    rates, _, _ = learned(monkeypatch, epochs=20, schedule=steps)
    half, quarter = len(rates) // 2, len(rates) // 4
    assert rates[:half] == [0.1] * half
    assert rates[half : half + quarter] == pytest.approx([0.01] * quarter)
    assert rates[half + quarter :] == pytest.approx([0.001] * quarter)


def test_even_batches_leave_no_tiny_one(monkeypatch):
    _, sizes, count = learned(monkeypatch, epochs=1, even_batches=True)
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1


def test_a_loop_that_is_broken_off_leaves_the_rate_as_it_was():
    learner = Learner(network(), make("er-bnt"), lr=0.1, batch=5, schedule=cosine)
    x, y = whole(1)
    learner.begin([0, 1], x, y)
    with pytest.raises(KeyboardInterrupt):
        learn_epochs(
            learner,
            x,
            y,
            epochs=2,
            progress=Progress(lambda event: None, total=0),
            epoch_over=interrupted,
        )
    assert learner.state.optimiser.lr == 0.1


def interrupted(epoch):
    raise KeyboardInterrupt
