"""Whole programs on devices that are not there: runs that are resumed, models that are taught,
examined, exported and pickled."""

import json
import pickle

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from bntricks import IncrementalClassifier, Model, diagnose, recalibrate
from bntricks.model.export import Deployed
from bntricks.networks.norms import NORMS
from bntricks.networks.resnet import ResNet
from bntricks.runs.checkpoint import Checkpoints, digest
from bntricks.runs.config import Config
from bntricks.runs.probes import statistics
from bntricks.runs.resolve import made_with, resolve
from bntricks.runs.train import train
from helpers.colours import FIRST, SECOND, TINY, pictures
from helpers.pretend import pretend

KINDS = ["cuda", "mps"]
LITTLE = {"width": 2, "stages": 2, "blocks": 1, "images_per_class": 20, "memory": 20, "epochs": 1}


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
def test_a_run_that_is_resumed_in_the_middle_of_a_task_ends_like_one_that_was_not(tmp_path, kind):
    with pretend(kind):
        how = {"stream": "seq-digits", "batch": 8, "device": kind, **LITTLE}
        stream, config = resolve(Config(method="er-bnt", **how), None)
        expected = digest(train(config, stream[:2]).learner.state_dict())
        depends = made_with(config, stream)
        for _ in range(2):
            with pytest.raises(PulledPlugError):
                train(config, stream[:2], checkpoints=Failing(tmp_path, depends, seconds=0))
        resumed = train(config, stream[:2], checkpoints=Checkpoints(tmp_path, depends))
        assert digest(resumed.learner.state_dict()) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", list(NORMS.entries()))
def test_every_normalisation_learns_on_a_device(norm, kind):
    with pretend(kind):
        how = {**LITTLE, "stream": "seq-digits", "width": 8, "images_per_class": 8, "device": kind}
        stream, config = resolve(Config(method="er", norm=norm, **how), None)
        learner = train(config, stream[:2]).learner
        assert {tensor.device.type for tensor in learner.net.state_dict().values()} == {kind}


@pytest.mark.parametrize("kind", KINDS)
def test_a_map_of_features_is_drawn_from_a_device(tmp_path, kind):
    with pretend(kind):
        how = {"stream": "seq-digits", "device": kind, **LITTLE}
        stream, config = resolve(Config(method="sgd", **how), None)
        learner = train(config, stream[:1]).learner
        statistics(learner, stream[:1], 0, seed=0, path=tmp_path / "map.json")
    assert (tmp_path / "map.json").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["er-bnt", "icarl-bnt"])
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


def test_an_estimator_that_learned_on_a_gpu_opens_without_one():
    x, y = load_digits(return_X_y=True)
    with pretend("cuda") as gpu:
        model = IncrementalClassifier("icarl-bnt", epochs=1, memory=40, width=8, device="cuda")
        model.fit(x[:200], y[:200])
        content, expected = pickle.dumps(model), model.predict_proba(x[:50])
        assert gpu.pickled == 0
        assert pickle.loads(content)._learner.device.type == "cuda"
        assert model._learner.device.type == "cuda"
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
