"""Whole programs on devices that are not there: runs that are resumed, models that are taught,
examined, exported and pickled."""

import json
import pickle
from collections import Counter
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from bntricks import IncrementalClassifier, Learner, Model, diagnose, recalibrate
from bntricks.model.export import Deployed
from bntricks.model.options import Protocol
from bntricks.networks.norms import NORMS
from bntricks.networks.resnet import ResNet
from bntricks.runs.config import Config
from bntricks.runs.probes import statistics
from bntricks.runs.resolve import made_with, resolve
from bntricks.runs.train import train
from bntricks.system.pretend import pretend
from bntricks.training.checkpoint import Checkpoints, digest
from bntricks.training.optimisers import OPTIMISERS
from helpers.colours import FIRST, SECOND, TINY, pictures, write_folder

KINDS = ["cuda", "mps"]
LITTLE = {"width": 2, "stages": 2, "blocks": 1, "images_per_class": 20, "memory": 20, "epochs": 1}


def little(kind, **options):
    how = {"stream": "seq-digits", "device": kind, **LITTLE, **options}
    return resolve(Config(**how), None)


class PulledPlugError(Exception):
    pass


class Failing(Checkpoints):
    """Power is lost just after the second checkpoint, in the middle of the first task."""

    def save(self, state):
        super().save(state)
        self.count = getattr(self, "count", 0) + 1
        if self.count == 2:
            raise PulledPlugError


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["er-bnt", "icarl-bnt", "lwf", "cls-er"])
def test_a_run_that_is_resumed_in_the_middle_of_a_task_ends_like_one_that_was_not(
    tmp_path, method, kind
):
    with pretend(kind):
        stream, config = little(kind, method=method, batch=8)
        expected = digest(train(config, stream[:2]).learner.state_dict())
        depends = made_with(config, stream)
        for _ in range(2):
            with pytest.raises(PulledPlugError):
                train(config, stream[:2], checkpoints=Failing(tmp_path, depends, seconds=0))
        resumed = train(config, stream[:2], checkpoints=Checkpoints(tmp_path, depends))
        assert digest(resumed.learner.state_dict()) == expected


@contextmanager
def steps_watched(gpu):
    """What makes the host wait within steps, by source line: the most of any one step."""
    most, observe = Counter(), Learner.observe

    def watched(learner, *args, **kwargs):
        before = gpu.waits.copy()
        loss = observe(learner, *args, **kwargs)
        most.update(max(most, gpu.waits - before, key=Counter.total) - most)
        return loss

    with mock.patch.object(Learner, "observe", watched):
        yield most


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", list(NORMS.entries()))
def test_every_normalisation_learns_on_a_device(norm, kind):
    with pretend(kind) as gpu, steps_watched(gpu) as waits:
        stream, config = little(kind, method="er", norm=norm, width=8)
        learner = train(config, stream[:2]).learner
        assert {tensor.device.type for tensor in learner.net.state_dict().values()} == {kind}
    assert kind == "mps" or not waits


OPTIONS = [
    *({"optimiser": name} for name in OPTIMISERS.entries()),
    {"schedule": "one-cycle", "clip": 1.0, "even_batches": True},
    {"head": "cosine", "augment": "none", "balance": "ratio"},
    {"precision": "bf16"},
    {"recalibrate": "memory", "blurry": 0.2},
    {"method": "gss", "as_published": True},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options)))
def test_options_of_a_run_work_on_a_device(options, kind):
    with pretend(kind) as gpu, steps_watched(gpu) as waits:
        train(*reversed(little(kind, **options)))
    assert kind == "mps" or waits.total() <= (2 if "method" in options else 0), waits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("correct", ["wa", "wa-eval", "bic", "il2m", "prior"])
def test_every_correction_is_fitted_on_a_device_as_on_the_cpu(correct, kind):
    stream, config = little("cpu", method="er", correct=correct)
    expected = train(config, stream[:3])
    with pretend(kind):
        found = train(config.model_copy(update={"device": kind}), stream[:3])
        fitted = found.learner.state.fitted
        assert {tensor.device.type for tensor in fitted.values()} <= {kind}
        fitted = {name: tensor.cpu() for name, tensor in fitted.items()}
    for name, tensor in expected.learner.state.fitted.items():
        torch.testing.assert_close(fitted[name], tensor, rtol=1e-2, atol=1e-2, equal_nan=True)
    if kind == "cuda":  # on mps another layout adds up in another order
        assert found.accuracy == expected.accuracy


@pytest.mark.parametrize("kind", KINDS)
def test_a_map_of_features_is_drawn_from_a_device(tmp_path, kind):
    with pretend(kind):
        stream, config = little(kind, method="sgd")
        learner = train(config, stream[:1]).learner
        statistics(learner, stream[:1], 0, seed=0, path=tmp_path / "map.json")
    assert (tmp_path / "map.json").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", [Protocol().method, "er-bnt", "icarl-bnt"])
def test_a_model_is_taught_examined_saved_and_asked(bnt, first, second, tmp_path, kind, method):
    model = tmp_path / "m.safetensors"
    with pretend(kind):
        for folder, flags in ((first, [*TINY, "--method", method]), (second, [])):
            learn = ["learn", folder, "--into", model, "--epochs", 2, "--device", kind]
            done = bnt(*learn, *flags)
            assert done.code == 0, done.err
            assert "could not examine" not in done.err
        on_device = json.loads(bnt("predict", model, first, "--device", kind, "--json").out)
    on_host = json.loads(bnt("predict", model, first, "--json").out)
    for found, expected in zip(on_device, on_host, strict=True):
        assert found == {**expected, "probability": pytest.approx(expected["probability"])}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_learns_more_is_diagnosed_and_repaired(bnt, model, first, second, tmp_path, kind):
    both = write_folder(tmp_path / "both", [*FIRST, *SECOND])
    with pretend(kind):
        for command in (
            ["learn", second, "--into", model, "--epochs", 1],
            ["learn", first, "--into", model, "--more", "--epochs", 1],
            ["diagnose", model, "--data", both],
            ["recalibrate", model, "--data", both, "--out", tmp_path / "repaired.safetensors"],
        ):
            done = bnt(*command, "--device", kind)
            assert done.code == 0, done.err


@pytest.mark.parametrize("kind", KINDS)
def test_the_doctor_sees_networks_on_a_device(kind):
    torch.manual_seed(0)
    groups = {name: [(torch.randn(32, 5) + k, torch.full((32,), k))] for k, name in enumerate("ab")}
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    net(torch.randn(64, 5) + 1)
    expected = diagnose(net, groups)
    with pretend(kind):
        net.to(kind)
        found = diagnose(net, groups)
        assert {t.device.type for t in net.state_dict().values()} == {kind}
        recalibrate(net, [x.to(kind) for [(x, _)] in groups.values()])
        assert {t.device.type for t in net.state_dict().values()} == {kind}
    assert found.verdict == expected.verdict
    assert [layer.shift for layer in found.layers] == [layer.shift for layer in expected.layers]


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_is_adopted_where_it_is(kind):
    with pretend(kind):
        net = ResNet(3, width=2, blocks=1, stages=2).to(kind)
        old = floats(FIRST)
        model = Model.adopt(net, classes=list(FIRST), memory=old, method="der++")
        assert model.learner.device.type == kind
        model.learn(floats(SECOND), epochs=1)
        assert len(model.predict(old["navy"])) == 12


def floats(names):
    return {name: torch.from_numpy(pictures(name)).float() / 255 for name in names}


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimator_that_learned_on_a_gpu_opens_without_one(kind):
    x, y = load_digits(return_X_y=True)
    with pretend(kind) as gpu:
        model = IncrementalClassifier("icarl-bnt", epochs=1, memory=40, width=8, device=kind)
        model.fit(x[:200], y[:200])
        content, expected = pickle.dumps(model), model.predict_proba(x[:50])
        assert gpu.pickled == 0
        assert pickle.loads(content)._learner.device.type == kind
        assert model._learner.device.type == kind
    opened = pickle.loads(content)
    assert opened._learner.device.type == "cpu"
    assert np.allclose(opened.predict_proba(x[:50]), expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["er-bnt", "icarl-bnt"])
def test_what_is_exported_is_all_on_the_host(kind, method):
    images = {name: pictures(name) for name in FIRST}
    with pretend(kind):
        model = Model.create(images, method=method, width=2, blocks=1, stages=2, device=kind)
        model.learn(images, epochs=1)
        deployed = Deployed(model)
        tensors = [*deployed.parameters(), *deployed.buffers()]
        assert {tensor.device.type for tensor in tensors} == {"cpu"}
        deployed(torch.zeros(2, *model.metadata.shape, dtype=torch.uint8))
        assert {p.device.type for p in model.net.parameters()} == {kind}
