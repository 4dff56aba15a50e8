"""Where pretrained networks come from: a registry, and libraries if they are installed."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from bntricks import Model, UserError
from bntricks.networks.backbones import BACKBONES, find_backbone
from bntricks.networks.backbones.efficientnet_lite import INPUT

CONFIG = {
    "input_size": (3, 8, 8),
    "mean": (0.5, 0.4, 0.3),
    "std": (0.2, 0.2, 0.2),
    "crop_pct": 0.9,
    "interpolation": "bicubic",
    "license": "apache-2.0",
}


def network(scale=1.0):
    net = nn.Sequential(nn.Conv2d(3, 4, 8), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 9))
    with torch.no_grad():
        net[0].weight.fill_(scale)
    return net


@pytest.fixture
def timm(monkeypatch):
    """A stand-in that makes one network, with trained weights or without."""

    def create_model(name, pretrained):
        if name != "resnet0":
            raise RuntimeError(f"Unknown model ({name})\nand more")
        net = network(2.0 if pretrained else 1.0)
        net.pretrained_cfg = CONFIG
        return net

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model))


@pytest.fixture
def torchvision(monkeypatch):
    transforms = SimpleNamespace(
        crop_size=[8],
        resize_size=[10],
        mean=[0.5] * 3,
        std=[0.25] * 3,
        interpolation=SimpleNamespace(value="bilinear"),
    )
    default = SimpleNamespace(transforms=lambda: transforms)
    models = SimpleNamespace(
        list_models=lambda module: ["resnet0"],
        get_model_weights=lambda name: SimpleNamespace(DEFAULT=default),
        get_model=lambda name, weights: network(1.0 if weights is None else 2.0),
    )
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))


def test_networks_of_timm_come_with_what_timm_says_of_their_weights(timm):
    model = Model.create(backbone="timm:resnet0")
    view, square = model.metadata.view, model.metadata.square
    assert (view.mean, view.std) == (CONFIG["mean"], CONFIG["std"])
    assert (square.size, square.crop, square.interpolation) == (8, 0.9, "bicubic")
    assert model.metadata.backbone.licence == "apache-2.0"
    assert model.net[0].weight.mean() == 2


def test_networks_of_torchvision_come_with_the_transforms_of_their_weights(torchvision):
    model = Model.create(backbone="torchvision:resnet0")
    square = model.metadata.square
    assert (square.size, square.crop, square.interpolation) == (8, 0.8, "bilinear")
    assert model.metadata.view.std == (0.25,) * 3
    assert model.net[0].weight.mean() == 2


def test_a_file_of_the_model_needs_no_trained_weights(timm, tmp_path):
    assert find_backbone("timm:resnet0")(False).net[0].weight.mean() == 1
    model = Model.create(backbone="timm:resnet0")
    x = torch.randint(256, (12, 3, 8, 8), dtype=torch.uint8)
    model.learn((x, list("ab" * 6)))
    model.save(tmp_path / "m")
    assert torch.equal(Model.load(tmp_path / "m").scores(x), model.scores(x))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resnet", ["unknown backbone", "efficientnet-lite0", "timm:NAME"]),
        ("timm:resnet1", ["timm:resnet1", "Unknown model (resnet1)", "as a file"]),
        ("timm:hf-hub:somebody/net", ["timm: and the name of a network"]),
        ("timm:local-dir:/tmp", ["timm: and the name of a network"]),
        ("torchvision:fasterrcnn", ["there is no classifier of this name"]),
        ("timm:", ["timm: and the name of a network"]),
        ("nets:build", ["unknown backbone"]),
        ("../nets.py", ["unknown backbone"]),
    ],
)
def test_a_name_is_never_a_place_of_code_or_weights(timm, torchvision, name, words):
    with pytest.raises(UserError) as refusal:
        Model.create(backbone=name)
    for word in words:
        assert word in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("timm:resnet0", "timm"),
        ("torchvision:resnet0", "torchvision"),
        ("efficientnet-lite0", "efficientnet_lite_pytorch"),
    ],
)
def test_what_is_not_installed_is_named_with_how_to_install_it(monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match="pip install"):
        Model.create(backbone=name)


def test_ours_is_in_the_registry_with_its_own_preparation():
    assert BACKBONES.is_built_in("efficientnet-lite0")
    assert INPUT.mean == pytest.approx((0.498,) * 3, abs=1e-3)
    assert INPUT.std == pytest.approx((0.502,) * 3, abs=1e-3)
