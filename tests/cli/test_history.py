"""How a model came to be, and which one serves: history, gate, roll-back, acceptance."""

import json
import shutil

import pytest

from bntricks import Model
from bntricks.model.earlier import earlier_file, refused_file
from bntricks.model.file import opened
from helpers.colours import FIRST, SECOND, write_folder

RUINS = ("--epochs", 3, "--lr", 30)


@pytest.fixture
def mixed(tmp_path):
    """A folder in which each colour has the name of another."""
    folder = tmp_path / "mixed"
    for name, colour in zip(FIRST, (*FIRST[1:], FIRST[0]), strict=True):
        made = write_folder(tmp_path / "made", [colour], count=60) / colour
        folder.mkdir(exist_ok=True)
        shutil.move(made, folder / name)
    return folder


@pytest.fixture
def large(bnt, tmp_path):
    """A model with enough held-out images for an interval."""
    folder = write_folder(tmp_path / "large", FIRST, count=60)
    path = tmp_path / "l.safetensors"
    flags = ("--image-size", 8, "--width", 4, "--blocks", 1, "--stages", 2, "--memory", 24)
    assert bnt("learn", folder, "--into", path, *flags, "--epochs", 20).code == 0
    return path


def entries(bnt, model):
    return json.loads(bnt("history", model, "--json").out)["entries"]


def test_every_change_is_an_entry_that_names_its_parent_and_how_it_was_made(
    bnt, model, second, tmp_path
):
    checksums = [opened(model)[2]]
    for command in (
        ("learn", second, "--into", model, "--epochs", 20, "--json", "--keep", 2),
        ("rename-class", model, FIRST[0], "red"),
        ("remove-class", model, "red", SECOND[0]),
    ):
        assert bnt(*command).code == 0
        checksums.append(opened(model)[2])
    first, learned, renamed, removed = entries(bnt, model)
    assert (first["event"], first["classes"], first["images"]) == ("learned", list(FIRST), 30)
    assert first["steps"] == 4
    assert first["parent"] is None
    assert len(first["data"]) == 64
    assert learned["classes"] == sorted(SECOND)
    assert (learned["epochs"], learned["steps"], learned["lr"]) == (20, 20, 0.003)
    assert set(learned["accuracy"]) == {*FIRST, *SECOND}
    assert all(0 <= right <= images == 2 for right, images in learned["accuracy"].values())
    assert learned["old"] == pytest.approx([100, 100], abs=100)
    assert learned["versions"].keys() == {"bntricks", "torch"}
    assert learned["command"] == "bnt learn second --epochs 20"
    assert (renamed["event"], renamed["classes"]) == ("renamed", [FIRST[0]])
    assert renamed["note"] == f"{FIRST[0]} is now red"
    assert (removed["event"], removed["classes"]) == ("removed", ["red", SECOND[0]])
    assert [each["parent"] for each in (learned, renamed, removed)] == checksums[:3]
    assert str(tmp_path).encode() not in model.read_bytes()
    text = bnt("history", model).out
    assert "renamed crimson (crimson is now red)" in text
    assert "2: bnt learn second --epochs 20" in text


def test_a_rate_that_was_given_once_is_not_the_models(bnt, model, second):
    assert bnt("learn", second, "--into", model, "--epochs", 1, "--lr", 0.0001).code == 0
    loaded = Model.load(model).metadata
    assert loaded.lr == 0.003
    assert loaded.history[-1].lr == 0.0001


def test_a_short_lesson_of_known_classes_has_a_rate_that_fits_its_length(bnt, model, tmp_path):
    folder = write_folder(tmp_path / "more", FIRST[:1], count=20)
    assert bnt("learn", folder, "--into", model, "--more", "--epochs", 6).code == 0
    last = Model.load(model).metadata.history[-1]
    assert last.lr == pytest.approx(0.003 * last.steps / 600)


def test_earlier_models_are_kept_by_number_and_the_oldest_go(bnt, model, tmp_path):
    contents = [model.read_bytes()]
    for number in range(5):
        old = Model.load(model).classes[0]
        assert bnt("rename-class", model, old, f"name {number}", "--keep", 2).code == 0
        contents.append(model.read_bytes())
    kept = sorted(path.name for path in tmp_path.glob("model.*"))
    assert kept == ["model.4.safetensors", "model.5.safetensors", "model.safetensors"]
    assert earlier_file(model, 4).read_bytes() == contents[3]
    assert bnt("remove-class", model, FIRST[1], "--keep", 0).code == 0
    assert sorted(path.name for path in tmp_path.glob("model.*")) == ["model.safetensors"]


def test_a_file_of_somebody_elses_is_neither_replaced_nor_removed(bnt, refused, model, tmp_path):
    mine = tmp_path / "model.1.safetensors"
    mine.write_bytes(b"mine")
    words = ["model.1.safetensors", "another file", "(--keep)"]
    refused("rename-class", model, FIRST[0], "red", words=words)
    assert bnt("rename-class", model, FIRST[0], "red", "--keep", 0).code == 0
    assert mine.read_bytes() == b"mine"
    assert "rollback" not in bnt("history", model).out


def test_a_model_is_rolled_back_and_its_history_goes_on(bnt, refused, model):
    before = Model.load(model)
    assert bnt("rename-class", model, FIRST[0], "red").code == 0
    assert bnt("rename-class", model, FIRST[1], "green").code == 0
    assert "after entry 1, with 3 classes" in bnt("rollback", model, 1).out
    back = Model.load(model)
    assert back.classes == before.classes
    assert [each.event for each in back.metadata.history] == [
        *("learned", "renamed", "renamed", "rolled back")
    ]
    refused("rollback", model, 1, words=["as it was after entry 1 already"])
    refused("rollback", model, 9, words=["no earlier model 9", "there is 1, 2, 3"])
    assert bnt("rollback", model, 3).code == 0
    assert Model.load(model).classes == ("red", "green", FIRST[2])
    assert bnt("rollback", model).code == 0  # one further back
    assert Model.load(model).classes == ("red", *FIRST[1:])


def test_a_lesson_that_costs_old_classes_leaves_the_model_as_it_was(bnt, refused, large, mixed):
    before = large.read_bytes()
    done = bnt("learn", mixed, "--into", large, "--more", "--epochs", 60, "--lr", 0.01)
    assert done.code == 1
    assert "they are forgotten" in done.out
    assert f"bnt accept {large}" in done.err.splitlines()[-1]
    assert large.read_bytes() == before
    assert len(Model.load(refused_file(large)).metadata.history) == 2
    learned, lost = entries(bnt, large)
    assert (learned["event"], lost["event"]) == ("learned", "refused")
    assert lost["old"][1] < lost["old"][0] - 20
    assert "told apart less well" in lost["note"]

    assert bnt("accept", large).code == 0
    assert [each["event"] for each in entries(bnt, large)] == ["learned", "refused", "accepted"]
    assert earlier_file(large, 1).read_bytes() == before
    assert not refused_file(large).exists()
    refused("accept", large, words=["nothing to accept"])


def test_a_refused_lesson_stays_in_the_history_once_and_its_file_goes_with_the_next_change(
    bnt, refused, large, mixed
):
    lesson = ("learn", mixed, "--into", large, "--more", "--epochs", 60, "--lr", 0.01, "--json")
    done = bnt(*lesson)
    told = json.loads(done.out)
    assert done.code == 1
    assert told["path"] == str(refused_file(large))
    assert told["refused"] == told["gate"]["refused"]
    beside = refused_file(large).read_bytes()
    assert bnt(*lesson).code == 1
    assert refused_file(large).read_bytes() == beside
    assert bnt("rename-class", large, FIRST[0], "red").code == 0
    assert not refused_file(large).exists()
    assert [each["event"] for each in entries(bnt, large)] == ["learned", "refused", "renamed"]
    refused("accept", large, words=["nothing to accept"])


def test_a_good_lesson_takes_the_models_place(bnt, model, second, tmp_path):
    before = model.read_bytes()
    done = bnt("learn", second, "--into", model, "--epochs", 20, "--json")
    learned = json.loads(done.out)
    assert (done.code, learned["refused"], learned["path"]) == (0, None, str(model))
    assert [path.name for path in tmp_path.glob("model.*.*")] == ["model.1.safetensors"]
    assert earlier_file(model, 1).read_bytes() == before


def test_a_model_from_before_there_was_a_history_has_one_of_its_lessons(bnt):
    from pathlib import Path

    old = Path(__file__).parents[1] / "old_files" / "0.2.0" / "models" / "adopted.safetensors"
    adopted, learned = entries(bnt, old)
    assert (adopted["event"], learned["event"]) == ("adopted", "learned")
    assert learned["images"] > 0


def test_saving_in_python_leaves_earlier_models_alone_unless_a_number_is_given(model, tmp_path):
    before = model.read_bytes()
    loaded = Model.load(model)
    loaded.rename({FIRST[0]: "red"})
    loaded.save(model, keep=3)
    assert earlier_file(model, 1).read_bytes() == before
    loaded.rename({"red": "rot"})
    assert loaded.metadata.history[-1].parent == opened(model)[2]
    loaded.save(model)
    assert earlier_file(model, 1).read_bytes() == before
    assert not earlier_file(model, 2).exists()
    with pytest.warns(FutureWarning, match="number of models"):
        loaded.save(model, keep=tmp_path / "old")
    assert Model.load(tmp_path / "old").classes == loaded.classes


def test_a_recalibration_is_an_entry(bnt, model, first, second, tmp_path):
    assert bnt("learn", second, "--into", model, "--epochs", 1).code in (0, 1)
    both = tmp_path / "both"
    shutil.copytree(first, both)
    shutil.copytree(second, both, dirs_exist_ok=True)
    out = tmp_path / "r.safetensors"
    command = ("recalibrate", model, "--data", both, "--anyway", "--out", out, "--batch", 8)
    assert bnt(*command).code == 0
    last = entries(bnt, out)[-1]
    assert (last["event"], last["parent"]) == ("recalibrated", opened(model)[2])
