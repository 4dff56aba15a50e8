"""What a model says of itself holds: even classes, calibrated probabilities, and what was left
out."""

import json

import pytest
import torch
import torch.nn.functional as F

from bntricks import Model
from bntricks.model.heads import temperature_of
from bntricks.model.learn import fitting_rate
from bntricks.training.learner import Learner
from helpers.colours import FIRST, TINY, pictures, write_folder


def test_a_lesson_of_uneven_folders_trains_on_as_many_images_of_each_class(monkeypatch):
    trained_on, observe = torch.zeros(3), Learner.observe

    def watched(learner, x, y, **how):
        trained_on.add_(torch.bincount(y, minlength=3))
        return observe(learner, x, y, **how)

    monkeypatch.setattr(Learner, "observe", watched)
    images = {name: pictures(name, n) for name, n in zip(FIRST, (50, 5, 50), strict=True)}
    model = Model.create(images, width=4, blocks=1, stages=2, memory=24)
    model.learn(images, held_out=0, epochs=3)
    assert trained_on.tolist() == [105, 105, 105]


def overconfident(n=400, classes=4, temperature=3.0):
    """Scores and labels drawn from probabilities that have another temperature."""
    random = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(n, classes, generator=random)
    y = torch.multinomial((scores / temperature).softmax(1), 1, generator=random).flatten()
    return scores, y


def test_the_temperature_that_made_the_labels_is_found():
    scores, y = overconfident()
    assert temperature_of(scores, y) == pytest.approx(3, rel=0.25)
    assert temperature_of(scores[:9], y[:9]) == 1.0


def test_a_handful_of_right_answers_does_not_look_certain():
    scores = 4 * torch.eye(3).repeat(4, 1)
    y = scores.argmax(1)
    found = temperature_of(scores, y)
    assert (scores / found).softmax(1).max() < 0.9999
    assert F.cross_entropy(scores / found, y) < F.cross_entropy(scores, y)


def test_probabilities_and_confidence_are_calibrated_and_answers_stay(model, tmp_path):
    loaded, x = Model.load(model), torch.from_numpy(pictures("navy", 20, seed=3))
    plain = loaded.predict_proba(x)
    loaded.metadata = loaded.metadata.model_copy(update={"temperature": 2.0})
    loaded.save(tmp_path / "m")
    again = Model.load(tmp_path / "m")
    softer = again.predict_proba(x)
    torch.testing.assert_close(softer, (loaded.scores(x) / 2).softmax(1))
    assert (softer.max(1).values < plain.max(1).values).all()
    assert [each.probability for each in again.answer(x)] == pytest.approx(
        softer.max(1).values.tolist()
    )
    assert "temperature of 2" in again.card()
    assert again.predict(x) == loaded.predict(x)


def test_a_lesson_with_enough_held_out_images_is_calibrated_on_those_that_choose():
    images = {name: pictures(name, 60) for name in FIRST}
    model = Model.create(images, width=4, blocks=1, stages=2, memory=24)
    model.learn(images, epochs=10)
    assert model.metadata.temperature != 1.0
    assert len(model.confirming) == 3 * 8
    assert len(model.held_out) == 3 * 12


def test_a_rate_fits_the_length_of_a_lesson():
    assert fitting_rate(0.003, 600) == fitting_rate(0.003, 6000) == 0.003
    assert fitting_rate(0.003, 60) == pytest.approx(0.0003)


def test_files_that_are_no_images_are_counted_by_kind(bnt, first, tmp_path):
    for k in range(3):
        (first / "navy" / f"{k}.HEIC").write_bytes(b"heic")
    (first / "navy" / "photo").write_bytes(b"no extension")
    (first / "readme.txt").write_text("photos")
    (first / "stray.png").write_bytes(next((first / "navy").glob("*.jpg")).read_bytes())
    done = bnt("learn", first, "--into", tmp_path / "m", *TINY, "--epochs", 1, "--json")
    assert done.code == 0, done.err
    lines = json.loads(done.out)["unreadable"]
    assert sorted(line.partition(" in ")[0] for line in lines) == [
        *("1 file .txt", "1 file outside the class folders", "1 file without an extension"),
        "3 files .heic",
    ]
    assert "3 files .heic" in done.err


def test_a_memory_without_room_for_two_of_each_class_is_a_warning(bnt, first, tmp_path):
    command = ("learn", first, "--into", tmp_path / "m", *TINY[:-2], "--epochs", 1)
    done = bnt(*command, "--memory", 5)
    assert "the memory of 5 images is small for 3 classes" in done.err
    (tmp_path / "m").unlink()
    assert "is small for" not in bnt(*command, "--memory", 6).err


def test_a_summary_of_many_classes_fits_a_screen(bnt, tmp_path):
    folder = tmp_path / "many"
    for k in range(60):
        write_folder(tmp_path / "one", FIRST[k % 3 : k % 3 + 1], count=3)
        folder.mkdir(exist_ok=True)
        (tmp_path / "one" / FIRST[k % 3]).rename(folder / f"class {k}")
    done = bnt("learn", folder, "--into", tmp_path / "m", *TINY, "--epochs", 1)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) < 40
    assert "of 60 classes the worst; --json has all" in done.out
