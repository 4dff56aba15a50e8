"""Networks with another normalisation, wherever networks go: doctor, folding, GSS, export."""

import copy

import numpy as np
import pytest
import torch

from bntricks import (
    NORMS,
    Learner,
    Model,
    Rows,
    UserError,
    diagnose,
    given_rows,
    make,
    replace_norm,
)
from bntricks.doctor import repair
from bntricks.networks.folded import FOLD_FROM, Folded, folded
from bntricks.networks.norms import SCHEMES, bound
from bntricks.networks.options import NetworkOptions
from bntricks.networks.registry import build_network
from bntricks.norm import drift, layers, moments, phi
from bntricks.recipes.sample_gradients import cosines, per_sample

OURS = [name for name in NORMS.entries() if name in SCHEMES]
WITH_PHI = [name for name in OURS if layers(bound(name, tasks=2)(4))]
LIKE_BATCHNORM = ["bn", "brn", "tbbn", "adab2n", "frozen"]


def network(name):
    """Trained a little, so that its φ is not that of a fresh one."""
    torch.manual_seed(0)
    init = torch.Generator().manual_seed(0)
    options = NetworkOptions(norm=name, width=4, blocks=1, stages=2)
    net = build_network(options, (3, 8, 8), 4, init, tasks=2)
    learner = Learner(net, make("er"), memory=20, lr=0.05)
    for task in (0, 1):
        learner.begin([2 * task, 2 * task + 1])
        for _ in range(4):
            learner.observe(*batch(task, 16))
    return net


def batch(task, count):
    y = torch.arange(count) % 2 + 2 * task
    return torch.randn(count, 3, 8, 8) + y[:, None, None, None] - 1.5, y


def groups():
    return {f"task {task}": [batch(task, 24), batch(task, 24)] for task in (0, 1)}


@pytest.mark.parametrize("name", WITH_PHI)
def test_the_doctor_examines_and_repairs_every_norm_that_keeps_statistics(name):
    net = network(name)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    diagnosis = diagnose(net, groups())
    assert len(diagnosis.layers) == len(layers(net)) == 6
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    statistics = phi(net)
    repair(net, groups())
    assert min(drift(net, statistics).values()) > 0


@pytest.mark.parametrize("name", [name for name in OURS if name not in WITH_PHI])
def test_the_doctor_has_nothing_to_examine_where_there_are_none(name):
    net = network(name)
    with pytest.raises(UserError, match="nothing to examine in this ResNet: it has no BatchNorm"):
        diagnose(net, groups())
    assert phi(net) == drift(net, {}) == {}


@pytest.mark.parametrize("name", OURS)
def test_many_images_are_scored_by_a_folded_network_where_that_is_exact(name):
    net = network(name).eval()
    reader = folded(net, FOLD_FROM)
    assert isinstance(reader, Folded) == (name in LIKE_BATCHNORM)
    x, _ = batch(1, FOLD_FROM)
    with torch.no_grad():
        assert torch.allclose(reader(x), net(x), atol=1e-4)


@pytest.mark.parametrize("name", [*LIKE_BATCHNORM, "cn"])
def test_gradients_of_single_images_are_those_of_each_alone(name):
    net = network(name)
    x, y = batch(1, 3)
    together, alone = per_sample(net, x, y), per_sample(net, x[:1], y[:1])
    assert torch.allclose(cosines(alone, together)[0, 0], torch.ones(()), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_every_norm_is_exported_as_it_evaluates(name):
    from bntricks.model.export import to_onnx

    onnxruntime = pytest.importorskip("onnxruntime")
    old = (batch(0, 16)[0], ["a", "b"] * 8)
    model = Model.adopt(network(name), classes=["a", "b", "c", "d"], memory=old, method="er")
    content, difference = to_onnx(model)
    assert difference < 1e-4
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    x, _ = batch(1, 5)
    (said,) = session.run(["probabilities"], {"images": x.numpy()})
    assert np.abs(said - model.predict_proba(x).numpy()).max() < 1e-4


@pytest.mark.parametrize("name", ["brn", "frozen", "tbbn", "adab2n"])
def test_moments_of_deeper_layers_are_those_of_a_network_with_batchnorm(name):
    net = network(name)
    plain = replace_norm(copy.deepcopy(net), "bn")
    x, _ = batch(1, 32)
    with given_rows(net, Rows(2, torch.arange(32) % 2)):
        ours = moments(net, [x])
    for key, other in moments(plain, [x]).items():
        assert torch.allclose(ours[key].mean, other.mean, atol=1e-5), key
        assert torch.allclose(ours[key].var, other.var, atol=1e-5), key
