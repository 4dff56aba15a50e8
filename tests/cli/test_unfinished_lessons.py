"""A lesson that is cut short anywhere goes on when the command is repeated, and ends in the same
file."""

import json
import os
import random
import shutil
import signal

import pytest
import torch
from torch import nn

from bntricks import Learner, Model
from bntricks.model.create import create
from bntricks.model.file import lesson_file
from bntricks.model.learn import teach
from bntricks.model.samples import gather
from bntricks.model.unfinished import checkpoints
from bntricks.streams import View
from bntricks.training.checkpoint import Checkpoints, pack, unpack
from helpers.colours import FIRST, SECOND, pictures, write_folder
from helpers.command_line import bnt as bnt_here

pytestmark = pytest.mark.fault

EPOCHS = ["--epochs", 3]
OFTEN = ["--checkpoint-seconds", 0]
METHODS = {
    "er-even-bnt": {},  # mixup
    "icarl-bnt": {"schedule": "constant", "optimiser": "sgdm"},
}
SLOW = {
    "lwf": {"optimiser": "sgd"},
    "der++-bnt": {},
    "fdr": {"optimiser": "adam"},
    "gem": {"tasks": 2},
    "gss": {"even_batches": False},
}


class PulledPlugError(Exception):
    pass


def of(names):
    return gather({name: pictures(name) for name in names}, size=8, held_out=0.2)


def forgetful(outputs=3):
    """A network that draws from the global generator when it learns."""
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5)),
        nn.Linear(216, outputs),
    )


def adopted(folder):
    torch.manual_seed(1)
    old = {name: pictures(name) for name in FIRST}
    view = View((0.5,) * 3, (0.3,) * 3)
    path = folder / "m"
    Model.adopt(forgetful(), classes=FIRST, memory=old, view=view, batch=8).save(path)
    return path, lambda: Model.load(path, net=forgetful)


def created(folder, method, options):
    samples = of(FIRST)
    model = create(
        samples, method=method, width=2, blocks=1, stages=2, memory=12, **{"batch": 8} | options
    )
    teach(model, samples, epochs=1, lr=None, sink=lambda event: None)
    path = folder / "m"
    model.save(path)
    return path, lambda: Model.load(path)


def lesson(path, model, after=None):
    """What a lesson says and the file it ends in, if the power stays on after so many saves."""
    torch.manual_seed(2)
    kept = checkpoints(path, seconds=0, sink=lambda event: None)
    saves = []

    def failing(made_with):
        own = kept(made_with)
        save = own.save

        def counted(state):
            save(state)
            saves.append(state["step"])
            if len(saves) == after:
                raise PulledPlugError

        own.save = counted
        return own

    learned = teach(model, of(SECOND), epochs=3, lr=None, sink=lambda event: None, keep=failing)
    end = path.with_name("end")
    model.save(end)
    return learned, end.read_bytes(), len(saves)


@pytest.mark.parametrize(
    "method",
    [
        *("er-even-bnt", "icarl-bnt", "a network of one's own"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    ],
)
def test_going_on_ends_in_the_same_file_and_the_same_words(tmp_path, method):
    options = (METHODS | SLOW).get(method)
    path, load = adopted(tmp_path) if options is None else created(tmp_path, method, options)
    learned, end, saves = lesson(path, load())
    assert saves > 6
    lesson_file(path).unlink()
    draw = random.Random(method)
    for after in (draw.randint(1, saves - 3), 1, 2):
        with pytest.raises(PulledPlugError):
            lesson(path, load(), after)
    steps = unpack(lesson_file(path).read_bytes())["state"]["step"]
    assert steps > 3, "it has gone on, again and again"
    assert lesson(path, load())[:2] == (learned, end)


@pytest.fixture(scope="module")
def undisturbed(taught, tmp_path_factory):
    """The file that a lesson of three epochs ends in, and what it says."""
    folder = tmp_path_factory.mktemp("undisturbed")
    second = write_folder(folder / "second", SECOND)
    model = shutil.copy(taught, folder / "model.safetensors")
    done = bnt_here("learn", second, "--into", model, *EPOCHS, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return model.read_bytes(), json.loads(done.stdout)


def cut_short(monkeypatch, how, step=2):
    """Do this in the middle of a step."""
    observe, steps = Learner.observe, []

    def observing(*batch, **options):
        steps.append(batch)
        if len(steps) == step:
            how()
        return observe(*batch, **options)

    monkeypatch.setattr(Learner, "observe", observing)


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_lesson_that_was_asked_to_stop_goes_on_from_that_very_step(
    bnt, model, second, undisturbed, monkeypatch, number, code
):
    content, learned = undisturbed
    before, command = model.read_bytes(), ("learn", second, "--into", model, *EPOCHS, "--json")
    with monkeypatch.context() as patch:
        cut_short(patch, lambda: signal.raise_signal(getattr(signal, number)))
        done = bnt(*command)
    assert (done.code, done.out) == (code, "")
    assert "repeat the command to go on" in done.err.splitlines()[-1]
    assert str(lesson_file(model)) in done.err
    assert model.read_bytes() == before
    done = bnt(*command)
    assert f"continuing from step 2 of {len(learned['losses'])}" in done.err
    assert json.loads(done.out) == {**learned, "path": str(model)}
    assert model.read_bytes() == content
    assert not lesson_file(model).exists()


def killed(bnt, *command):
    """The command in a child that kills itself in its second step; nobody can prevent that."""
    child = os.fork()
    if not child:
        with pytest.MonkeyPatch.context() as patch:
            cut_short(patch, lambda: os.kill(os.getpid(), signal.SIGKILL))
            bnt(*command)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_killed_lesson_goes_on(bnt, model, second, undisturbed):
    command = ("learn", second, "--into", model, *EPOCHS)
    killed(bnt, *command, *OFTEN)
    left = lesson_file(model).with_name(f".{lesson_file(model).name}.0123abcd.partial")
    left.write_bytes(b"half a lesson, with images")
    assert "continuing from step 1" in bnt(*command).err
    assert model.read_bytes() == undisturbed[0]
    assert not left.exists()
    assert not lesson_file(model).exists()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_first_lesson_of_a_new_model_goes_on_too(bnt, first, tmp_path):
    new = ("learn", first, "--image-size", 8, "--width", 4, "--stages", 2, *EPOCHS)
    assert bnt(*new, "--into", tmp_path / "whole").code == 0
    killed(bnt, *new, "--into", tmp_path / "m", *OFTEN)
    assert not (tmp_path / "m").exists()
    assert "continuing" in bnt(*new, "--into", tmp_path / "m").err
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.fixture
def begun(bnt, model, second, monkeypatch):
    """A model with a lesson that was interrupted."""
    with monkeypatch.context() as patch:
        cut_short(patch, lambda: signal.raise_signal(signal.SIGINT))
        assert bnt("learn", second, "--into", model, *EPOCHS).code == 130
    assert lesson_file(model).exists()
    return model


def test_a_lesson_begun_otherwise_is_discarded_in_a_line(bnt, begun, second, undisturbed):
    earlier = begun.read_bytes()
    done = bnt("learn", second, "--into", begun, "--epochs", 1)
    assert done.code == 0
    assert f"{lesson_file(begun)} was begun with different epochs: it is discarded" in done.err
    assert "continuing" not in done.err
    assert not lesson_file(begun).exists()
    assert Model.load(begun).metadata.taught[-1].epochs == 1
    begun.write_bytes(earlier)


def test_a_lesson_of_other_images_is_discarded(bnt, begun, second):
    (next(second.iterdir()) / "00.jpg").unlink()
    done = bnt("learn", second, "--into", begun, *EPOCHS)
    assert done.code == 0
    assert "was begun with different images: it is discarded" in done.err


def test_a_torn_lesson_starts_over_and_leaves_nothing(bnt, begun, second, undisturbed):
    file = lesson_file(begun)
    file.write_bytes(file.read_bytes()[:-1])
    done = bnt("learn", second, "--into", begun, *EPOCHS)
    assert "not a whole checkpoint" in done.err
    assert "starting over" in done.err
    assert begun.read_bytes() == undisturbed[0]
    assert list(begun.parent.glob(".*")) == []


@pytest.mark.parametrize(
    ("part", "value"),
    [("step", 0), ("random", torch.zeros(3)), ("losses", {}), ("place.order", None)],
)
def test_a_forged_lesson_is_refused_in_a_line_that_says_what_to_do(
    refused, begun, second, part, value
):
    before, file = begun.read_bytes(), lesson_file(begun)
    content = unpack(file.read_bytes())
    *path, last = part.split(".")
    inner = content["state"]
    for key in path:
        inner = inner[key]
    inner[last] = value
    file.write_bytes(pack(content))
    words = ["does not fit this lesson", f"remove {file}"]
    refused("learn", second, "--into", begun, *EPOCHS, words=words)
    assert begun.read_bytes() == before


def test_images_of_a_removed_class_do_not_stay_in_a_lesson(bnt, begun):
    assert bnt("remove-class", begun, FIRST[0]).code == 0
    assert not lesson_file(begun).exists()


def full(*_, **__):
    raise OSError(28, "No space left on device")


def test_a_disk_that_is_full_at_the_end_costs_no_step(
    bnt, refused, model, second, undisturbed, monkeypatch
):
    command = ("learn", second, "--into", model, *EPOCHS)
    with monkeypatch.context() as patch:
        patch.setattr("bntricks.model.learn.WORTH_KEEPING", 0)
        patch.setattr("bntricks.model.earlier.commit", full)
        done = bnt(*command)
    assert (done.code, done.out) == (1, "")
    said = done.err.splitlines()[-1]
    assert "No space left" in said
    assert "make room if the disk is full, and repeat the command" in said
    monkeypatch.setattr(Learner, "observe", None)  # it is not needed any more
    assert bnt(*command).code == 0
    assert model.read_bytes() == undisturbed[0]


def test_a_lesson_that_cannot_be_kept_is_learned_all_the_same(
    bnt, model, second, undisturbed, monkeypatch
):
    monkeypatch.setattr("bntricks.training.checkpoint.write_atomically", full)
    done = bnt("learn", second, "--into", model, *EPOCHS, *OFTEN)
    assert done.code == 0
    assert "cannot keep the lesson so far (No space left on device)" in done.err
    assert model.read_bytes() == undisturbed[0]


def test_a_lesson_that_fails_by_itself_is_not_kept(bnt, refused, model, second):
    flags = ["--lr", 1e30, *OFTEN, *EPOCHS]
    done = bnt("learn", second, "--into", model, *flags)
    assert done.code == 1
    assert "lower the learning rate" in done.err
    assert not lesson_file(model).exists()


def test_a_lesson_in_python_leaves_nothing_beside_the_model(model, monkeypatch):
    monkeypatch.setattr(Checkpoints, "save", None)
    Model.load(model).learn({name: pictures(name) for name in SECOND}, epochs=1)
    assert not lesson_file(model).exists()


@pytest.mark.parametrize("flags", [(), ("--json",)])
@pytest.mark.parametrize(
    "where", ["bntricks.doctor.model.checkup", "bntricks.model.earlier.forget"]
)
def test_a_request_to_stop_after_the_save_does_not_cost_the_summary(
    bnt, model, second, monkeypatch, flags, where
):
    monkeypatch.setattr(where, lambda _: signal.raise_signal(signal.SIGINT))
    done = bnt("learn", second, "--into", model, *EPOCHS, *flags)
    assert done.code == 130
    assert len(Model.load(model).classes) == 6
    if flags:
        learned = json.loads(done.out)
        assert (learned["doctor"], learned["images"]) == (None, 30)
    else:
        assert "learned" in done.out
        assert f"written to {model}" in done.out


def test_a_lesson_is_kept_beside_the_file_that_a_link_leads_to(model, tmp_path):
    link = tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(model)
    assert lesson_file(link) == lesson_file(model)
