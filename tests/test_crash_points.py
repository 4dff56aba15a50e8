"""Every command that writes is killed before a change it makes to its folder, and repeated: it must
then have made what it makes undisturbed, and nothing else. With BNT_EVERY_POINT, as in
`make test-deep`, before each of its changes."""

import functools
import hashlib
import json
import os
import random
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from types import SimpleNamespace

import pytest

from bntricks.runs import folder as runs_folder
from helpers import command_line
from helpers.colours import FIRST, SECOND, TINY, write_folder
from helpers.command_line import DIGITS, cifar10
from helpers.crash_points import KILLED, forked

EVERY_POINT = "BNT_EVERY_POINT" in os.environ
POINTS = 4
"""Of each command, by default."""

ONNX = ("--onnx", "o.onnx") if EVERY_POINT else ()  # takes seconds
SOME = ("--stream", "seq-digits", "--images-per-class", "8", "--classes-per-task", "5", *DIGITS[4:])
RUN = ("run", "--method", "er-bnt", *SOME)
WITH_ALL = ("--save-every-task", "--readings", "--epoch-accuracy", "--log", "csv")
LESSON = ("--epochs", "1", "--checkpoint-seconds", "0")
LEARN = ("learn", "first", "--into", "m", *TINY, *LESSON)
WELL = (*LEARN[:-4], "--epochs", "30")
BADLY = ("learn", "second", "--into", "m", "--epochs", "3", "--lr", "30", *LESSON[2:])
MORE = ("learn", "second", "--into", "m", *LESSON)
LOCKS_NOTHING = frozenset({".r.lock"})
SWEEP = ("sweep", "--grid", "lr=0.01,0.1", "--seeds", "1", "--validation", "0.25", *SOME)
STUDY = """
title = "T"
methods = ["sgd", "er-bnt"]
streams = ["seq-digits"]
[scale.lite]
seeds = 1
[scale.lite.overrides]
epochs = 1
width = 2
blocks = 1
stages = 2
images_per_class = 8
classes_per_task = 5
"""


@dataclass(frozen=True)
class Case:
    """A command, the commands that make what it needs, and what it says if it is called again when
    it has done its work."""

    words: tuple[str, ...]
    after: tuple[tuple[str, ...], ...] = ()
    refusal: str | None = None
    left: frozenset[str] = frozenset()
    """What may then be left until the file is changed again."""
    code: int = 0
    """With which it ends."""
    killed: tuple[tuple[str, ...], int] | None = None
    """A command that was killed after these, and where."""


CASES = {
    "run": Case((*RUN, "--checkpoint-seconds", "0", "--out", "runs", *WITH_ALL)),
    "run, trained again": Case((*RUN, *WITH_ALL, "--force"), after=((*RUN, *WITH_ALL),)),
    "run, asked for more": Case((*RUN, "--probe", "phi"), after=(RUN,)),
    "run with the statistics": Case((*RUN, "--probe", "statistics")),
    "run with the overlap": Case((*RUN, "--probe", "overlap")),
    "run of another name": Case(
        ("run", "--method", "er-cur+buf", *SOME),
        after=(("run", "--method", "er-bnt-imbalance-tracker", *SOME),),
    ),
    "run from a folder": Case(
        ("run", "--stream", "seq-cifar10", "--data", "data", "--image-size", "8", *DIGITS[4:])
    ),
    "resume": Case(("resume", "runs/*"), killed=(RUN, 24)),
    "study": Case(("study", "s.toml", "--out", "runs", "--workers", "1", "--save")),
    "sweep": Case((*SWEEP, "--out", "runs", "--workers", "1")),
    "learn": Case(LEARN, refusal="already exists"),
    "learn more": Case(MORE, after=(LEARN,), refusal="already"),
    "learn badly": Case(BADLY, after=(WELL,), code=1),
    "accept": Case(
        ("accept", "m"),
        after=(WELL, BADLY),
        refusal="nothing to accept",
        left=frozenset({"m.refused"}),
    ),
    "rollback": Case(("rollback", "m", "1"), after=(LEARN, MORE), refusal="as it was after"),
    "rename, the fifth time": Case(
        ("rename-class", "m", "red 3", "red 4", "--keep", "2"),
        after=(
            LEARN,
            ("rename-class", "m", FIRST[0], "red 1"),
            ("rename-class", "m", "red 1", "red 2"),
            ("rename-class", "m", "red 2", "red 3"),
        ),
        refusal="red 3",
        left=frozenset({"m.1", "m.2"}),
    ),
    "rename": Case(("rename-class", "m", FIRST[0], "red"), after=(LEARN,), refusal=FIRST[0]),
    "remove": Case(("remove-class", "m", FIRST[0]), after=(LEARN,), refusal=FIRST[0]),
    "export": Case(
        ("export", "m", "--safetensors", "e", "--card", "c.md", *ONNX),
        after=(LEARN,),
        refusal="is there already",
    ),
    "recalibrate": Case(
        ("recalibrate", "m", "--data", "both", "--anyway", "--out", "r", "--batch", "8"),
        after=(LEARN, MORE),
        refusal="is there already",
        left=LOCKS_NOTHING,
    ),
    "report": Case(("report", "runs", "--study", "s.toml"), after=(RUN,)),
    "report, smaller": Case(
        ("report", "runs"),
        after=(RUN, ("report", "runs", "--study", "s.toml")),
    ),
    "explore": Case(("explore", "runs", "--out", "e.html"), after=((*RUN, "--probe", "phi"),)),
    "compare": Case(
        ("compare", "a", "b", "--report", "c.html"),
        after=((*RUN, "--out", "a"), (*RUN, "--seed", "1", "--out", "b")),
    ),
}


class Noon(datetime):
    @classmethod
    def now(cls, zone=None):
        return cls(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module", autouse=True)
def nothing_but_the_work():
    """No dates, no durations, no estimates, one process, and figures that cost nothing to draw."""
    from bntricks.report import files
    from bntricks.report.explorer import page as explorer
    from bntricks.runs import probes
    from bntricks.sweeps import local

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bntricks.model.history.datetime", Noon)
        patch.setattr("bntricks.runs.describe.datetime", Noon)
        patch.setattr(runs_folder, "describe", functools.partial(timeless, runs_folder.describe))
        patch.setattr("bntricks.sweeps.estimate.step_seconds", lambda *_: 0.001)
        patch.setattr(files, "rendered", drawn)
        # In a forked process nothing draws.
        patch.setattr(explorer, "vl_convert", SimpleNamespace(vegalite_to_svg=lambda *_, **__: ""))
        patch.setattr(probes, "tsne", lambda features, *_: features[:, :2].cpu().numpy())
        patch.setattr(local, "_side_by_side", in_turn)
        yield


def timeless(describe, *arguments):
    """A record as it would be if time stood still."""
    record = describe(*arguments)
    seconds = {kind: (1.0,) * len(record.accuracy) for kind in ("train", "evaluate")}
    seconds = record.seconds.model_copy(update=seconds)
    update = {"seconds": seconds, "images_per_second": 1.0, "peak_memory_mb": 0.0}
    return record.model_copy(update=update)


def drawn(figure):
    return {f"{figure.name}.{end}": json.dumps(figure.spec).encode() for end in ("svg", "pdf")}


def in_turn(trainings, shared, workers, sink):
    from bntricks.sweeps import local

    return [
        local.train_one(training, shared, (), lambda event, i=index: sink({"run": i, **event}))
        for index, training in enumerate(trainings)
    ]


def bnt(place, words):
    """The command, in this process."""
    found = (sorted(place.glob(word)) if "*" in word else [word] for word in words)
    return command_line.bnt(*chain(*found), cwd=place, BNT_CACHE=str(place / "cache"))


def killed(place, words, point):
    """The command in a child that dies before this change."""
    died = forked(lambda: bnt(place, words).returncode, place, point)
    assert died.code == KILLED, died
    return died


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Folders in which commands have been carried out, each made once."""
    root = tmp_path_factory.mktemp("prepared")

    @functools.cache
    def make(commands):
        place = root / hashlib.sha256(repr(commands).encode()).hexdigest()[:8]
        if commands:
            shutil.copytree(make(commands[:-1]), place)
            done = bnt(place, commands[-1])
            assert done.returncode == (commands[-1] == BADLY), done.stderr
        else:
            write_folder(place / "first", FIRST)
            write_folder(place / "second", SECOND)
            write_folder(place / "both", FIRST + SECOND)
            cifar10(place / "data", per_class=4)
            (place / "s.toml").write_text(STUDY)
        return place

    return make


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize("name", CASES)
def test_a_command_that_was_killed_and_repeated_has_done_its_work(name, prepared, tmp_path):
    case = CASES[name]
    place = tmp_path / "place"

    def anew():
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(prepared(case.after), place)
        if case.killed is not None:
            killed(place, *case.killed)

    anew()
    undisturbed = bnt(place, case.words)  # here, so that its children have nothing to import
    assert undisturbed.returncode == case.code, undisturbed.stderr
    whole = content(place)
    anew()
    changes = forked(lambda: bnt(place, case.words).returncode, place).changes
    points = range(changes)
    if not EVERY_POINT:
        points = sorted(random.Random(name).sample(points, min(POINTS, changes)))
    wrong = []
    for point in points:
        anew()
        died = killed(place, case.words, point)
        done = whole.items() <= content(place).items()
        again = bnt(place, case.words)
        now = content(place)
        there = done and again.returncode == 2 and (case.refusal or "\n") in again.stderr
        for file in case.left if there else ():
            now.pop(file, None)
        if (again.returncode != case.code and not there) or now != whole:
            wrong.append((point, died.last, again.stderr[-600:], difference(whole, now)))
    print(f"{name}: killed at {len(points)} of {changes} points, {len(wrong)} wrong")
    assert not wrong, f"{len(wrong)} of {len(points)}: " + "\n".join(map(str, wrong[:20]))


def content(place):
    """What is in the folder; logs say how it came about, so they need only be whole."""
    found = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        if name.startswith("cache/") and name.endswith(".lock"):
            continue  # locks nothing, and goes when the entry is made again
        if path.is_dir():
            found[name] = "folder"
        elif path.name.startswith("log."):
            lines = path.read_text().splitlines(keepends=True)
            assert all(line.endswith("\n") for line in lines)
            found[name] = "log"
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def difference(wanted, found):
    return SimpleNamespace(
        missing=sorted(wanted.keys() - found.keys()),
        left=sorted(found.keys() - wanted.keys()),
        changed=sorted(k for k in wanted.keys() & found.keys() if wanted[k] != found[k]),
    )
