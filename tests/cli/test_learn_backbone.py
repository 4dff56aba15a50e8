"""`bnt learn --backbone` and what comes after it, as a user types it."""

import json

import pytest

from bntricks import Model
from helpers.colours import FIRST, SECOND, write_folder

MINE = """
import torch
from torch import nn
from bntricks import BACKBONES, Backbone, ImageInput

@BACKBONES.named("mine")
def mine(trained):
    torch.manual_seed(0 if trained else 1)
    net = nn.Sequential(
        nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(12, 5),
    )
    return Backbone(net, ImageInput(8, (0.5,) * 3, (0.5,) * 3))
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    monkeypatch.setattr("bntricks.plugins.imports._LOADED", {})
    (tmp_path / "mine.py").write_text(MINE)
    return ["--import", tmp_path / "mine.py"]


@pytest.fixture
def taught_here(bnt, first, tmp_path, code):
    into = tmp_path / "m.safetensors"
    done = bnt("learn", first, "--into", into, "--backbone", "mine", *code)
    assert done.code == 0, done.err
    return into, done


def test_two_folders_are_learned_by_their_features(bnt, taught_here, second, code):
    into, done = taught_here
    assert "what answers: " in done.out
    assert "shrunk LDA 100.0" in done.out
    assert "the features of 30 images and no image" in done.out
    learned = json.loads(bnt("learn", second, "--into", into, *code, "--json").out)
    assert learned["all"]["after"] > 90
    assert set(learned["heads"]) == {"lda", "means", "linear"}
    assert learned["head"] in learned["heads"]
    answers = json.loads(bnt("predict", into, second, *code, "--json").out)
    assert len(answers) == 36
    assert sum(answer["label"] in answer["path"] for answer in answers) > 30


def test_more_images_of_a_folder_that_has_grown(bnt, refused, taught_here, first, tmp_path, code):
    into, _ = taught_here
    refused("learn", first, "--into", into, *code, words=["knows", "--more"])
    refused("learn", first, "--into", into, "--more", *code, words=["has all these images"])
    write_folder(first / "navy", ["黒"], 4)  # nested folders belong to their class
    learned = json.loads(bnt("learn", first, "--into", into, "--more", *code, "--json").out)
    assert learned["images"] == 3


def test_a_threshold_says_what_it_costs_and_a_useless_one_is_refused(
    bnt, refused, taught_here, first, tmp_path, code
):
    into, _ = taught_here
    done = bnt("predict", into, first, "--threshold", 0.2, *code, "--json")
    assert "of the model's own held-out images" in done.err
    answers = json.loads(done.out)
    assert all((a["label"] is None) == (a["confidence"] <= 0.2) for a in answers)
    done = bnt("predict", into, first, "--threshold", 0.9, *code)
    assert (done.code, done.out) == (2, "")
    assert "useless" in done.err
    done = bnt("export", into, "--pt2", tmp_path / "m.pt2", "--threshold", 1, *code)
    assert done.code == 2
    assert not (tmp_path / "m.pt2").exists()
    words = ["--threshold", "--onnx"]
    refused("export", into, "--card", tmp_path / "c", "--threshold", 0.1, *code, words=words)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--backbone", "nobody"], ["unknown backbone", "efficientnet-lite0", "timm:NAME"]),
        (["--backbone", "mine", "--net", "nets:build"], ["--net", "one network"]),
        (["--backbone", "mine", "--width", 4], ["--width", "not for a --backbone"]),
        (["--backbone", "mine", "--classes", "a,b"], ["--classes", "not for a --backbone"]),
        (["--backbone", "mine", "--epochs", 3], ["--epochs", "frozen trunk"]),
        (["--backbone", "mine", "--weights", "none.pt"], ["none.pt"]),
        (["--crop", "0.5"], ["--crop", "--backbone NAME"]),
        (["--backbone", "mine", "--image-size", 2000], ["--image-size"]),
    ],
)
def test_mistakes_are_a_line_and_leave_nothing(refused, first, tmp_path, code, flags, words):
    before = set(tmp_path.iterdir())
    refused("learn", first, "--into", tmp_path / "m", *flags, *code, words=words)
    assert set(tmp_path.iterdir()) == before


def test_a_model_of_your_own_backbone_needs_your_code_again(taught_here, refused, first):
    from bntricks.networks.backbones import BACKBONES

    into, _ = taught_here
    del BACKBONES._entries["mine"]
    refused("predict", into, first, words=[into.name, "unknown backbone 'mine'"])


def test_a_model_keeps_the_backbone_it_was_made_with(refused, taught_here, second, code):
    into, _ = taught_here
    words = ["already exists", "--backbone"]
    refused("learn", second, "--into", into, "--backbone", "mine", *code, words=words)


def test_predictions_stream_in_blocks(bnt, taught_here, first, code, monkeypatch):
    monkeypatch.setattr("bntricks.streams.files.image.BLOCK_BYTES", 4 * 3 * 8 * 8)
    sizes, answer = [], Model.answer
    monkeypatch.setattr(
        Model, "answer", lambda self, x, **how: sizes.append(len(x)) or answer(self, x, **how)
    )
    into, _ = taught_here
    assert len(json.loads(bnt("predict", into, first, *code, "--json").out)) == 36
    assert (sum(sizes), max(sizes)) == (36, 4)
    assert len(FIRST) + len(SECOND) == 6


def test_the_doctor_examines_a_frozen_trunk_and_leaves_its_phi_alone(
    bnt, taught_here, first, second, tmp_path, code
):
    into, _ = taught_here
    assert bnt("learn", second, "--into", into, *code).code == 0
    both = tmp_path / "both"
    both.mkdir()
    for folder in (*first.iterdir(), *second.iterdir()):
        folder.rename(both / folder.name)
    done = bnt("diagnose", into, "--data", both, "--json", *code)
    assert done.code == 0, done.err
    assert json.loads(done.out)["verdict"]["headline"]
    done = bnt("recalibrate", into, "--data", both, "--out", tmp_path / "new", *code)
    assert done.code == 2
    assert "frozen backbone" in done.err
    assert not (tmp_path / "new").exists()
