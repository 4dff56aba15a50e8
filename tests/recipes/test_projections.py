"""GEM's quadratic program against an oracle, its Gram matrix, and A-GEM's half-space."""

import numpy as np
import pytest
import quadprog
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from bntricks.methods import make
from bntricks.recipes.projections import cone_weights, gram_matrix, half_space
from bntricks.training.learner import Learner
from helpers.tiny import batches, network, whole

pytestmark = pytest.mark.law


def oracle(products, against, margin, ridge):
    """min ½ v'Qv + (Gg)'v subject to v ≥ γ, by quadprog's active-set method."""
    q = (products + products.T) / 2 + ridge * np.eye(len(products))
    return quadprog.solve_qp(q, -against, np.eye(len(q)), np.full(len(q), margin))[0]


@st.composite
def systems(draw):
    """Past gradients and a new one: some repeated, some zero, more of them than dimensions."""
    past, size = draw(st.integers(1, 9)), draw(st.integers(1, 12))
    numbers = st.floats(-3, 3, width=32)
    rows = draw(arrays(np.float64, (past, size), elements=numbers))
    if past > 1 and draw(st.booleans()):
        rows[-1] = rows[0]
    return rows, draw(arrays(np.float64, size, elements=numbers)), draw(st.floats(0, 2))


@settings(max_examples=1000)
@given(systems())
def test_the_cone_equals_the_quadratic_program(system):
    rows, gradient, margin = system
    products, against = rows @ rows.T, rows @ gradient
    weights = cone_weights(products, against, margin=margin, ridge=1e-3)
    wanted = oracle(products, against, margin, 1e-3)
    assert (weights >= margin - 1e-9).all()
    # What matters is the corrected gradient; on flat directions weights may differ.
    assert np.allclose(rows.T @ weights, rows.T @ wanted, atol=1e-6, rtol=1e-6)


@settings(max_examples=200)
@given(systems())
def test_without_ridge_a_singular_system_still_has_an_answer(system):
    rows, gradient, margin = system
    weights = cone_weights(rows @ rows.T, rows @ gradient, margin=margin, ridge=0.0)
    assert np.isfinite(weights).all()
    assert (weights >= margin - 1e-9).all()


def test_a_gram_matrix_over_millions_of_columns_keeps_its_digits():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(3, 3_000_000, generator=generator) * 0.01 + 0.003
    exact = (rows.double() @ rows.double().T).numpy()
    assert np.abs(gram_matrix(rows) / exact - 1).max() < 1e-6


vectors = arrays(np.float32, (5,), elements=st.floats(-100, 100, width=32))


@given(vectors, vectors)
def test_in_the_half_space_no_step_works_against_the_reference(gradient, reference):
    gradient, reference = torch.from_numpy(gradient.copy()), torch.from_numpy(reference.copy())
    before = gradient.clone()
    half_space([gradient[:2], gradient[2:]], [reference[:2], reference[2:]])
    against = (before.double() @ reference.double()).item()
    scale = 1e-6 * (before.double().norm() * reference.double().norm()).item()
    assert (gradient.double() @ reference.double()).item() >= -scale - 1e-30
    assert torch.equal(before, gradient) or against < 0


@pytest.mark.parametrize("name", ["gem", "a-gem"])
def test_a_gradient_that_is_not_finite_does_not_crash_the_projection(name):
    learner = Learner(network(), make(name), memory=12, memory_batch=6, tasks=2, lr=0.1)
    for task in (1, 2):
        x, y = whole(task)
        learner.begin([2 * task - 2, 2 * task - 1], x, y)
        learner.observe(x[:7], y[:7])
        learner.end(x, y)
        with torch.no_grad():
            next(learner.net.parameters()).fill_(torch.nan)
    assert not torch.isfinite(learner.observe(x[:7], y[:7]))


@pytest.mark.parametrize("optimiser", ["sgd", "sgdm", "adam", "adamw"])
@pytest.mark.parametrize("name", ["gem", "a-gem"])
def test_every_optimiser_is_given_the_corrected_gradient(monkeypatch, name, optimiser):
    """It may make another step of it; what it is given works against nothing that is stored."""
    protocol = {"memory": 12, "memory_batch": 12, "tasks": 2, "optimiser": optimiser, "clip": 0.1}
    learner = Learner(network(), make(name), lr=0.01, **protocol)
    x, y = whole(1)
    learner.begin([0, 1], x, y)
    for _ in range(20):
        learner.observe(x[:7], y[:7])
    learner.end(x, y)
    learner.begin([2, 3], *whole(2))
    step, products = learner.state.optimiser.step, []

    def spying():
        given = [parameter.grad.clone() for parameter in learner.net.parameters()]
        assert torch.stack([each.norm() for each in given]).norm() < 0.1001
        stored = learner.memory.read(torch.arange(len(learner.memory)))
        loss = torch.nn.functional.cross_entropy(learner.net(stored.x), stored.y)
        references = torch.autograd.grad(loss, list(learner.net.parameters()))
        products.append(sum((g * r).sum().item() for g, r in zip(given, references, strict=True)))
        step()

    monkeypatch.setattr(learner.state.optimiser, "step", spying)
    for x, y in batches(2):
        learner.observe(x, y)
    assert len(products) == 3
    assert min(products) > -1e-6
