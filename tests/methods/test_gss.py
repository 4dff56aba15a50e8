"""GSS, one gradient at a time, and with BN Tricks, equals its straight-line twin (spec 4)."""

import pytest
import torch
import torch.nn.functional as F

from helpers.twin import EVEN, UNEVEN, er, er_bnt, side_by_side, stacked

pytestmark = pytest.mark.reference

REFERENCES = 32


def gradient(twin, batch):
    """∇ of the mean cross-entropy, in evaluation mode."""
    x, y = stacked(batch)
    return twin.gradient(F.cross_entropy(twin.evaluate(x), y))


def likeness(gradient, references):
    """1 + the largest cosine with any of the references."""
    return 1 + max(F.cosine_similarity(gradient, r, dim=0).item() for r in references)


def remember(twin, bt):
    """The greedy update of the memory; says whether the gate was open, None if nobody asked."""
    references, score = [], 0.1
    if twin.slots:
        chosen = torch.randperm(len(twin.slots), generator=twin.sampling)[:REFERENCES]
        references = [gradient(twin, [twin.slots[i]]) for i in chosen]
        score = likeness(gradient(twin, bt), references)
    left = []
    for sample in bt:
        if len(twin.slots) < twin.capacity:
            twin.slots.append(sample._replace(task=twin.t))
            twin.scores.append(score)
        else:
            left.append(sample)
    if not left or score >= 1:
        return False if left else None
    draws = torch.rand(len(bt), 2, generator=twin.insertion, dtype=torch.float64)[-len(left) :]
    for sample, (which, whether) in zip(left, draws.tolist(), strict=True):
        own = likeness(gradient(twin, [sample]), references)
        goal, victim = which * sum(twin.scores), 0
        while victim < len(twin.scores) - 1 and goal >= twin.scores[victim]:
            goal -= twin.scores[victim]
            victim += 1
        if whether < twin.scores[victim] / (twin.scores[victim] + own):
            twin.slots[victim] = sample._replace(task=twin.t)
            twin.scores[victim] = own
    return True


@pytest.mark.parametrize("lessons", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize(("name", "train"), [("gss", er), ("gss-bnt", er_bnt)])
def test_gss_equals_its_twin_over_three_tasks_of_three_steps(name, train, lessons):
    gates = []

    def step(twin, bt):
        if not hasattr(twin, "scores"):
            twin.scores = []
        train(twin, bt)
        gates.append(remember(twin, bt))

    def check(learner, twin):
        kept = learner.memory.scores[: len(twin.slots)].tolist()
        assert kept == pytest.approx(getattr(twin, "scores", []), abs=1e-5)

    side_by_side(name, step, check=check, lessons=lessons)
    assert True in gates
    assert False in gates
