"""From folders of photographs to a model that answers, as a user types it."""

import csv
import io
import json
import os
import signal
import struct
import zlib

import pytest
import torch
from PIL import Image

from bntricks import Learner, Model
from bntricks.files import shown
from helpers.colours import FIRST, SECOND, TINY, pictures, write_folder
from helpers.command_line import bnt as bnt_here, process
from helpers.processes import completed

ASK = """
import sys
import torch
from bntricks import Model
torch.set_num_threads(1)
x = torch.load(sys.argv[2], weights_only=True)
torch.save(Model.load(sys.argv[1]).scores(x), sys.argv[3])
"""


def test_two_folders_become_one_model_that_knows_both(tmp_path, first, second):
    """The second lesson is one process, which has only the file from the first."""

    def stdout(how, *arguments):
        done = how(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    into = ["--into", "m.safetensors", "--epochs", 20]
    assert "crimson, grün, navy" in stdout(bnt_here, "learn", first, *into, *TINY, "--batch", 8)
    learned = json.loads(stdout(process, "learn", second, *into, "--json"))
    old, new = learned["tasks"]
    assert old["classes"] == list(FIRST)
    assert new["classes"] == sorted(SECOND)
    assert (old["images"], new["images"], learned["images"]) == (6, 6, 30)
    assert old["before"] > 90
    assert new["before"] is None
    assert learned["all"]["after"] > 60

    answers = json.loads(
        stdout(bnt_here, "predict", "m.safetensors", second, first / "navy", "--json")
    )
    assert len(answers) == 3 * 12 + 12
    assert set(answers[0]) == {"path", "label", "probability"}
    right = [answer["label"] in answer["path"] for answer in answers]
    assert sum(right) > 0.6 * len(right)
    assert all(1 / 6 <= answer["probability"] <= 1 for answer in answers)


def test_a_lesson_is_told_line_by_line_and_summed_up_for_people_and_programs(
    bnt, first, second, tmp_path
):
    into = tmp_path / "m"
    done = bnt("learn", first, "--into", into, *TINY, "--epochs", 20)
    assert done.code == 0, done.err
    told = [line for line in done.err.splitlines() if "epoch" in line]
    assert len(told) == 10
    assert told[-1].startswith("bnt: epoch 20/20, loss ")
    assert "training loss" in done.out
    assert "  navy " in done.out
    learned = json.loads(bnt("learn", second, "--into", into, "--epochs", 2, "--json").out)
    assert len(learned["losses"]) == 2
    assert [own["classes"] for own in learned["classes"]] == [
        [name] for name in (*FIRST, *sorted(SECOND))
    ]
    assert {"confused", "concerns"} <= learned.keys()


def test_a_model_that_learned_nothing_says_so(bnt, first, tmp_path):
    flags = ["--epochs", 1, "--lr", 1e-9]
    done = bnt("learn", first, "--into", tmp_path / "m", *TINY, *flags)
    assert "WARNING: The model is right on" in done.out
    assert "more epochs" in done.out


def test_a_saved_model_predicts_the_same_bits_in_another_process(model, tmp_path):
    loaded = Model.load(model)
    x = torch.from_numpy(pictures("grün", 30, seed=1))
    torch.save(x, tmp_path / "x")
    done = completed(model, tmp_path / "x", tmp_path / "scores", script=ASK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert torch.equal(torch.load(tmp_path / "scores", weights_only=True), loaded.scores(x))


def test_learning_on_from_the_file_is_learning_on(model, tmp_path):
    more = {name: pictures(name) for name in SECOND}
    once = Model.load(model)
    once.save(tmp_path / "again")
    twice = Model.load(tmp_path / "again")
    for loaded in (once, twice):
        loaded.learn(more, epochs=2, sink=lambda event: None)
    for name, value in once.net.state_dict().items():
        assert torch.equal(value, twice.net.state_dict()[name]), name
    assert torch.equal(once.learner.memory.x, twice.learner.memory.x)


def test_old_classes_count_in_a_reservoir_as_if_offered_as_often_as_new_ones(tmp_path):
    old, new = ({name: pictures(name) for name in names} for names in (FIRST, SECOND))
    made = Model.create(old, method="er-bnt", width=4, blocks=1, stages=2, memory=24)
    made.learn(old, epochs=4)
    assert made.learner.memory.offered == 4 * 30
    made.save(tmp_path / "m")
    again = Model.load(tmp_path / "m")
    again.learn(new, epochs=2)
    assert again.learner.memory.offered == 2 * (2 * 30)


def stored(model):
    memory = model.learner.memory
    return [bytes(x.numpy()) for x in memory.x[: memory.filled]]


def test_test_images_are_kept_and_never_trained_on(model):
    loaded = Model.load(model)
    held = {bytes(x.numpy()) for x in loaded.held_out.x}
    assert len(held) == 6
    assert held.isdisjoint(stored(loaded))
    loaded.learn({name: pictures(name) for name in SECOND}, epochs=1, sink=lambda event: None)
    assert held < {bytes(x.numpy()) for x in loaded.held_out.x}
    assert held.isdisjoint(stored(loaded))


def test_accuracies_are_those_of_the_test_images(model):
    loaded = Model.load(model)
    before = [
        loaded.classes[y] == p
        for y, p in zip(loaded.held_out.y, loaded.predict(loaded.held_out.x), strict=True)
    ]
    learned = loaded.learn(
        {name: pictures(name) for name in SECOND}, epochs=2, sink=lambda event: None
    )
    assert learned.tasks[0].before == pytest.approx(100 * sum(before) / len(before))
    predicted = loaded.predict(loaded.held_out.x)
    right = [loaded.classes[y] == p for y, p in zip(loaded.held_out.y, predicted, strict=True)]
    assert learned.tasks[0].after == pytest.approx(100 * sum(right[:6]) / 6)
    assert learned.tasks[1].after == pytest.approx(100 * sum(right[6:]) / 6)
    assert learned.all.after == pytest.approx(100 * sum(right) / 12)


def test_at_most_a_hundred_images_of_a_class_are_held_out():
    from bntricks.model.samples import gather

    many = {"crimson": pictures("crimson", 700), "navy": pictures("navy", 10)}
    samples = gather(many, size=8, held_out=0.2)
    assert torch.bincount(samples.test.y).tolist() == [100, 2]
    assert torch.bincount(samples.train.y).tolist() == [600, 8]


def test_predictions_are_printed_for_people_and_spreadsheets(bnt, model, tmp_path):
    odd = os.fsdecode(b'\xff=1+1, "x"\n.png')  # not UTF-8, and more
    Image.fromarray(pictures("navy", 1)[0].transpose(1, 2, 0)).save(tmp_path / odd)
    done = bnt("predict", model, tmp_path / odd, "--json")
    assert done.code == 0, done.err
    (answer,) = json.loads(done.out)
    assert answer["path"] == str(tmp_path / odd)
    text = bnt("predict", model, tmp_path / odd).out
    assert "\\udcff=1+1" in text
    assert f"{100 * answer['probability']:.1f}" in text
    done = process("predict", model, odd, "--csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = list(csv.reader(io.StringIO(done.stdout)))
    assert rows == [
        ["path", "label", "probability"],
        [shown(odd), answer["label"], str(answer["probability"])],
    ]


def test_formats_are_one_at_a_time(refused, model, first):
    refused("predict", model, first, "--json", "--csv", words=["leave one of them out"])


def test_images_that_cannot_be_read_are_named_and_refused_or_left_out(
    bnt, refused, first, tmp_path
):
    (first / "navy" / "bad.png").write_bytes(b"not an image")
    (first / "navy" / ".hidden.png").write_bytes(b"not an image")
    into = tmp_path / "m"
    message = refused("learn", first, "--into", into, *TINY, words=["bad.png", "--skip-unreadable"])
    assert "hidden" not in message
    assert not into.exists()
    done = bnt("learn", first, "--into", into, *TINY, "--epochs", 1, "--skip-unreadable", "--json")
    assert done.code == 0, done.err
    assert "bad.png" in done.err
    learned = json.loads(done.out)
    assert learned["images"] == 30
    assert len(learned["unreadable"]) == 1

    files = sorted((first / "navy").glob("[!.]*"))
    refused("predict", into, *files, words=["bad.png", "--skip-unreadable"])
    done = bnt("predict", into, *files, "--skip-unreadable", "--json")
    assert "bad.png" in done.err
    assert [answer["path"] for answer in json.loads(done.out)] == [
        str(file) for file in files if file.name != "bad.png"
    ]


def test_pipes_links_and_missing_files_are_named_and_not_waited_for(refused, model, tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    refused("predict", model, tmp_path / "pipe.png", words=["pipe.png", "not a regular file"])
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere")
    refused("predict", model, tmp_path / "link.png", words=["link.png", "no such file"])
    refused("predict", model, tmp_path / "none.png", words=["none.png", "no such file"])
    (tmp_path / "empty").mkdir()
    refused("predict", model, tmp_path / "empty", words=["empty", "no images"])


def png_of(width, height):
    """A small file that claims to be a large image."""

    def chunk(kind, body):
        whole = kind + body
        return struct.pack(">I", len(body)) + whole + struct.pack(">I", zlib.crc32(whole))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"0"))


def test_an_image_that_would_fill_the_memory_is_refused_unopened(refused, model, first, tmp_path):
    bomb = first / "navy" / "bomb.png"
    bomb.write_bytes(png_of(30_000, 30_000))
    refused("predict", model, bomb, words=["bomb.png", "decompression bomb"])
    refused("learn", first, "--into", tmp_path / "m", words=["bomb.png", "decompression bomb"])


def test_a_model_keeps_what_it_was_made_with(refused, model, second):
    words = ["--width", "--memory", "another file"]
    refused("learn", second, "--into", model, "--width", 8, "--memory", 9, words=words)


def test_known_classes_are_not_learned_twice(refused, model, tmp_path):
    folder = write_folder(tmp_path / "third", ["navy", "黒"])
    refused("learn", folder, "--into", model, words=["'navy'", "new classes only", "--more"])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--method", "er-bmt"], ["er-bmt", "did you mean"]),
        (["--method", "joint"], ["joint", "all tasks at once"]),
        (["--method", "cls-er"], ["cls-er", "slow copies"]),
        (["--method", "gem"], ["gem", "--tasks"]),
        (["--method", "icarl", "--memory", "2"], ["icarl", "memory of 2"]),
        (["--alpha", "2"], ["er-even-bnt", "--alpha"]),
        (["--optimiser", "adamv"], ["adamv", "did you mean adam"]),
        (["--schedule", "cosin"], ["cosin", "did you mean cosine"]),
        (["--epochs", "0"], ["epochs"]),
        (["--epoch", "5"], ["--epoch", "did you mean --epochs"]),
        (["--device", "gpu"], ["--device gpu", "cuda:N"]),
        (["--device", "cuda:99"], ["cuda:99"]),
    ],
)
def test_mistakes_are_a_line_and_leave_nothing(refused, first, tmp_path, flags, words):
    before = set(tmp_path.iterdir())
    refused("learn", first, "--into", tmp_path / "m", "--image-size", 8, *flags, words=words)
    assert set(tmp_path.iterdir()) == before


def test_places_where_no_model_can_be_are_refused_before_any_work(refused, first, tmp_path):
    refused("learn", first, "--into", tmp_path, words=["is a folder"])
    refused("learn", first, "--into", tmp_path / "no" / "m", words=["does not exist"])
    refused("learn", tmp_path / "none", "--into", tmp_path / "m", words=["none", "does not exist"])


@pytest.mark.fault
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_lesson_leaves_the_model_as_it_was(
    bnt, model, second, monkeypatch, number, code
):
    before, beside = model.read_bytes(), sorted(model.parent.iterdir())
    monkeypatch.setattr(Learner, "end", lambda *_: signal.raise_signal(number))
    done = bnt("learn", second, "--into", model, "--epochs", 1)
    assert (done.code, done.out) == (code, "")
    assert model.read_bytes() == before
    assert sorted(model.parent.iterdir()) == beside


def test_a_check_up_that_fails_costs_a_line_and_not_the_model(bnt, model, second, monkeypatch):
    saved = []

    def failing(_):
        saved.extend(Model.load(model).classes)
        raise RuntimeError("no float64 here\nand more lines")

    monkeypatch.setattr("bntricks.doctor.model.checkup", failing)
    done = bnt("learn", second, "--into", model, "--epochs", 1, "--json")
    assert done.code == 0
    assert (
        done.err.splitlines()[-1] == "bnt: the doctor could not examine the model: no float64 here"
    )
    assert json.loads(done.out)["doctor"] is None
    assert len(saved) == len(Model.load(model).classes) == 6
