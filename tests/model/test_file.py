"""The model file: readable by anyone, with or without its memory, whole or untouched."""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import safetensors.torch as safe
import torch
from safetensors import safe_open

from bntricks import Model, UserError
from bntricks.model.file import lesson_file
from helpers.colours import FIRST, pictures, write_folder
from helpers.processes import Process, completed


def hear(event):
    """Somebody else's progress."""


def test_anyone_can_read_it_and_it_tells_nothing_of_the_machine(model, tmp_path):
    with safe_open(model, "pt") as file:
        about = json.loads(file.metadata()["bntricks"])
        assert torch.isfinite(file.get_tensor("net.conv.weight")).all()
        assert file.get_tensor("net.bn.running_mean").shape == (4,)
    assert [task["classes"] for task in about["taught"]] == [list(FIRST)]
    assert about["taught"][0]["images"] == 30
    assert about["taught"][0]["epochs"] == 4
    assert len(about["taught"][0]["date"]) == len("2022-02-16")
    assert (about["method"], about["memory"], about["with_memory"]) == ("er-even-bnt", 24, True)
    assert set(about["versions"]) == {"bntricks", "torch"}
    content = model.read_bytes()
    for place in (str(tmp_path), f"{Path.home()}/", os.uname().nodename):
        assert place.encode() not in content


def test_names_may_be_any_text(model, tmp_path):
    names = ["a\nb", 'say "hi"', "</script>", "{{x}}", "\x00", "é" * 300, "\u202eabc", " "]
    loaded = Model.load(model)
    loaded.learn({n: pictures("黒", 3, seed=k) for k, n in enumerate(names)}, epochs=1, sink=hear)
    loaded.save(tmp_path / "m")
    again = Model.load(tmp_path / "m")
    assert again.classes == (*FIRST, *names)
    assert again.groups == (FIRST, tuple(names))
    x = torch.from_numpy(pictures("黒", 20))
    assert again.predict(x) == loaded.predict(x)


def test_odd_names_are_printed_in_one_line_each(bnt, model, tmp_path):
    loaded = Model.load(model)
    odd = "two\nlines [red]\x1b[31m"
    loaded.learn({odd: pictures("黒", 30)}, epochs=30, sink=hear)
    loaded.save(model)
    folder = write_folder(tmp_path / "new", ["黒"], count=4)
    lines = bnt("predict", model, folder).out.splitlines()
    assert len(lines) == 1 + 4
    assert "two\\nlines [red]\\x1b[31m" in lines[1]
    text = bnt("learn", folder, "--into", model, "--epochs", 1).out
    assert "task 2: two\\nlines [red]\\x1b[31m" in text


def test_without_its_memory_it_predicts_the_same_and_holds_no_images(bnt, model, tmp_path):
    small = tmp_path / "small"
    done = bnt("export", model, "--safetensors", small)
    assert done.code == 0, done.err
    assert {name.split(".")[0] for name in safe.load_file(small)} == {"net"}
    loaded, x = Model.load(small), torch.from_numpy(pictures("navy", 20))
    assert torch.equal(loaded.scores(x), Model.load(model).scores(x))
    assert loaded.groups == (FIRST,)


def test_without_its_memory_it_cannot_learn_on_and_says_so(refused, model, tmp_path, second):
    Model.load(model).save(tmp_path / "small", memory=False)
    before = (tmp_path / "small").read_bytes()
    words = ["without its memory", "the file that has its memory"]
    refused("learn", second, "--into", tmp_path / "small", words=words)
    assert (tmp_path / "small").read_bytes() == before
    Model.load(tmp_path / "small").save(tmp_path / "again")  # memory=True makes none up
    with pytest.raises(UserError, match="without its memory"):
        Model.load(tmp_path / "again").learn({"x": pictures("黒")}, sink=hear)


def test_nearest_means_survive_without_exemplars(tmp_path):
    from bntricks.model.create import create
    from bntricks.model.learn import teach
    from bntricks.model.samples import gather

    samples = gather({name: pictures(name) for name in FIRST}, size=8, held_out=0.2)
    loaded = create(samples, width=4, blocks=1, stages=2, memory=9, method="icarl-bnt")
    teach(loaded, samples, epochs=2, lr=None, sink=hear)
    x = torch.from_numpy(pictures("navy", 20))
    for whole in (True, False):
        loaded.save(tmp_path / "m", memory=whole)
        again = Model.load(tmp_path / "m")
        assert torch.equal(again.scores(x), loaded.scores(x))
        assert again.predict_proba(x).sum(1).allclose(torch.ones(20))


LESSON = """
import sys
from pathlib import Path
from bntricks.cli import main
from bntricks import Learner

observe = Learner.observe

def marked(self, *batch, **how):
    Path(MARK).touch()
    return observe(self, *batch, **how)

Learner.observe = marked
sys.argv = ["bnt", *sys.argv[1:]]
main()
"""


def test_a_killed_lesson_leaves_the_model_as_it_was(model, tmp_path, second):
    before, folder = model.read_bytes(), tmp_path / "marks"
    folder.mkdir()
    for number in (signal.SIGKILL, signal.SIGTERM):
        mark = folder / str(int(number))
        learn = ["learn", second, "--epochs", "100000", "--into", model]
        script = LESSON.replace("MARK", repr(str(mark)))
        with Process(*learn, script=script, cwd=tmp_path) as lesson:
            while lesson.poll() is None and not mark.exists():
                time.sleep(0.05)
            lesson.send_signal(number)
            assert lesson.wait() == (-9 if number == signal.SIGKILL else 143)
        assert mark.exists()
        assert model.read_bytes() == before
    assert [p for p in tmp_path.iterdir() if p.name.startswith(".")] == [lesson_file(model)]


SWALLOWED = """
import os, signal, sys
from bntricks.cli import main
from bntricks import Learner

observe = Learner.observe

def asked_to_stop(self, *batch, **how):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except SystemExit:  # as some compiled modules do while they are imported
        pass
    return observe(self, *batch, **how)

Learner.observe = asked_to_stop
sys.argv = ["bnt", *sys.argv[1:]]
main()
"""


def test_a_request_to_stop_is_obeyed_whatever_a_step_does_with_it(model, tmp_path, second):
    before = model.read_bytes()
    learn = ["learn", second, "--epochs", "2", "--into", model]
    done = completed(*learn, script=SWALLOWED, cwd=tmp_path)
    assert done.returncode == 143
    assert model.read_bytes() == before


def test_a_model_is_taught_by_one_at_a_time(refused, model, second):
    from bntricks.files import held

    with ThreadPoolExecutor(1) as other:
        holding = held(model)
        other.submit(holding.__enter__).result()
        refused("learn", second, "--into", model, words=["being taught by another"], code=3)
        other.submit(holding.__exit__, None, None, None).result()


def test_a_disk_that_cannot_be_written_is_said(model, monkeypatch, tmp_path):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        Model.load(model).save(tmp_path / "m")
