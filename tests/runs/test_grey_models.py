"""A run's network on grey images, as a model that commands use on image files."""

import json

import pytest
from PIL import Image

from bntricks import open_stream
from helpers.command_line import bnt

pytestmark = pytest.mark.journey


@pytest.fixture(scope="module")
def grey(tmp_path_factory):
    """A network of the embedded images of clothing, and a folder of some of them; one class has a
    slash in its name."""
    folder = tmp_path_factory.mktemp("grey")
    small = ("--image-size", "8", "--images-per-class", "60", "--width", "8", "--blocks", "1")
    done = bnt(
        *("run", "--method", "joint", "--stream", "seq-fashion", *small, "--stages", "2"),
        *("--epochs", "8", "--save", "--out", "runs"),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    stream = open_stream("seq-fashion")
    for task in stream:
        for label in task.classes:
            place = folder / "photos" / stream.class_names[label]
            place.mkdir(parents=True)
            for index, image in enumerate(task.test.x[task.test.y == label][:12]):
                picture = Image.fromarray(image[0].numpy())
                picture = picture.convert("RGB") if index % 2 else picture
                picture.save(place / f"{index}.png")
    [model] = folder.glob("runs/*/model.safetensors")
    return folder, str(model.relative_to(folder))


def test_it_predicts(grey):
    folder, model = grey
    done = bnt("predict", model, "photos", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    right = sum(f"/{each['label']}/" in each["path"] for each in answers)
    assert len(answers) == 120
    assert right > 24  # of ten classes


def test_it_is_diagnosed_and_recalibrated(grey):
    folder, model = grey
    done = bnt("diagnose", model, "--data", "photos", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    diagnosis = json.loads(done.stdout)
    assert diagnosis["groups"][0]["name"] == "T-shirt/top, Trouser"
    assert [group["samples"] for group in diagnosis["groups"]] == [24] * 5
    fixed = ("recalibrate", model, "--data", "photos", "--phi", "balanced", "--anyway")
    done = bnt(*fixed, "--out", "fixed.safetensors", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert bnt("predict", "fixed.safetensors", "photos", cwd=folder).returncode == 0
