"""Herding and nearest class means: the greedy choice, the quotas, and when means are remade."""

import pytest
import torch
from hypothesis import given, strategies as st

from bntricks.methods import make
from bntricks.recipes.policies import herd
from bntricks.training.learner import Learner
from bntricks.training.state import State
from helpers.tiny import network, whole

pytestmark = pytest.mark.law


@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 999))
def test_herding_is_the_greedy_choice(count, picks, seed):
    features = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed)).double()
    chosen = herd(features, picks).tolist()
    assert len(chosen) == len(set(chosen)) == min(count, picks)
    for k, pick in enumerate(chosen):
        distance = {
            i: (features.mean(0) - features[[*chosen[:k], i]].mean(0)).norm().item()
            for i in range(count)
            if i not in chosen[:k]
        }
        assert distance[pick] <= min(distance.values()) + 1e-12  # equals may go either way


def taught(memory, tasks=3, method="er-even-bnt"):
    learner = Learner(network(), make(method), memory=memory, lr=0.1)
    for task in range(1, tasks + 1):
        x, y = whole(task)
        learner.begin([2 * task - 2, 2 * task - 1], x, y)
        learner.observe(x, y)
        learner.end(x, y)
    return learner


@pytest.mark.parametrize("capacity", [7, 12, 10_000])
def test_an_even_memory_holds_distinct_samples_of_even_classes(capacity):
    memory = taught(capacity).memory
    offered = torch.cat([whole(task)[0] for task in (1, 2, 3)])
    assert len(memory) == min(capacity, len(offered))
    kept = {bytes(x.numpy()) for x in memory.x[: len(memory)]}
    assert len(kept) == len(memory)
    assert kept <= {bytes(x.numpy()) for x in offered}
    shares = memory.y[: len(memory)].bincount(minlength=6)
    assert shares.max() - shares.min() <= (1 if capacity < len(offered) else len(offered))


def icarl(memory, tasks=3):
    return taught(memory, tasks, "icarl"), *whole(tasks)


def test_quotas_floor_and_what_is_left_over_stays_empty():
    learner, _, _ = icarl(memory=16)  # six classes: two each, four slots to spare
    assert learner.memory.filled == 12
    assert learner.memory.y[:12].bincount().tolist() == [2] * 6
    assert len(learner.memory.sample(100)) == 12


def test_old_classes_keep_the_first_of_their_herding_order():
    two, _, _ = icarl(memory=16, tasks=2)
    kept = [two.memory.ids[:16][two.memory.y[:16] == c][:2].tolist() for c in range(4)]
    three, _, _ = icarl(memory=16, tasks=3)
    assert kept == [three.memory.ids[:12][three.memory.y[:12] == c].tolist() for c in range(4)]


def test_class_means_are_remade_only_after_a_change(monkeypatch):
    passes = []
    features = State.features
    monkeypatch.setattr(
        State,
        "features",
        lambda self, x, **more: passes.append(len(x)) or features(self, x, **more),
    )
    learner, x, y = icarl(memory=16, tasks=2)
    passes.clear()
    learner.predict(x)
    learner.predict(x)
    assert passes == [learner.memory.filled]
    learner.begin([4, 5], x, y)
    learner.observe(x, y)
    learner.predict(x)
    assert len(passes) == 2


def test_classes_without_exemplars_are_never_predicted():
    learner, x, _ = icarl(memory=16, tasks=2)
    scores = learner.scores(x)
    assert torch.isneginf(scores[:, 4:]).all()
    assert torch.isfinite(scores[:, :4]).all()
