"""What a machine does to a run: signals, kills, full and read-only disks. All of it real."""

import json
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from helpers.command_line import bnt, refused

pytestmark = [pytest.mark.fault, pytest.mark.slow]

RUN = ["run", "--stream", "seq-digits", "--images-per-class", "40", "--memory", "30"]
RUN += ["--width", "4", "--blocks", "1", "--stages", "2", "--epochs", "12"]
OFTEN = ["--checkpoint-seconds", "0.05"]
SAME = ("digest", "accuracy", "task_il_accuracy", "forwards", "tracking_skipped")


def started(flags, cwd, until):
    """A run under way: its process, once `until` says so of its folder."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bntricks", *flags],
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 100
    while not until(cwd) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def record(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_same(found, expected):
    assert {key: found[key] for key in SAME} == {key: expected[key] for key in SAME}


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_was_asked_to_stop_goes_on_from_that_very_step(tmp_path, sent, code):
    run = [*RUN, "--method", "der++-bnt"]
    expected = record(bnt(*run, "--out", "whole", "--json", cwd=tmp_path))
    # No checkpoint by time: the one it goes on from is made because it was asked to stop.
    process = started(run, tmp_path, lambda cwd: _log(cwd, '"epoch": 3'))
    process.send_signal(sent)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    folder = next((tmp_path / "runs").iterdir())
    assert (folder / "checkpoint.newest").exists()
    found = record(bnt("resume", folder, "--json", cwd=tmp_path))
    assert_same(found, expected)
    resumed = [json.loads(line) for line in (folder / "log.jsonl").open()]
    (at,) = (event["step"] for event in resumed if event["event"] == "resumed")
    told = max(
        event["step"] for event in resumed if event["event"] == "epoch" if event["step"] < at
    )
    assert at >= told > 0
    assert not list(folder.glob("checkpoint.*"))


def _log(cwd, text):
    return any(text in path.read_text() for path in cwd.glob("runs/*/log.jsonl"))


@pytest.mark.parametrize("method", ["icarl-bnt", "gss", "lwf"])
def test_a_run_that_is_killed_again_and_again_is_the_same_run(tmp_path, method):
    run = [*RUN, "--method", method]
    expected = record(bnt(*run, "--out", "whole", "--json", cwd=tmp_path))
    draw = random.Random(method)
    for _ in range(3):
        process = started([*run, *OFTEN], tmp_path, lambda cwd: list(cwd.glob("runs/*/log.jsonl")))
        time.sleep(draw.uniform(0, 1.5))
        process.kill()
        process.communicate()
    assert_same(record(bnt(*run, "--json", cwd=tmp_path)), expected)


def in_own_mount(script, cwd):
    """A shell with mounts of its own, which vanish with it."""
    script = f'set -e; bnt() {{ {sys.executable} -m bntricks "$@"; }}; {script}'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=200)


def test_a_full_disk_stops_a_run_which_goes_on_when_there_is_room(tmp_path):
    run = " ".join([*RUN, "--method er-bnt", *OFTEN])
    expected = record(bnt(*run.split(), "--out", "whole", "--json", cwd=tmp_path))
    done = in_own_mount(
        f"""mkdir disk; mount -t tmpfs -o size=140k tmpfs disk
        bnt {run} --out disk > first.out 2> first.err || echo $? > first.code
        ls disk/* > files
        mount -o remount,size=50m disk
        bnt {run} --out disk --json > second.json
        cat disk/*/log.jsonl > log""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "first.code").read_text() == "1\n", (tmp_path / "first.err").read_text()
    said = (tmp_path / "first.err").read_text()
    assert "No space left" in said
    assert "goes on" in said
    assert "Traceback" not in said
    files = (tmp_path / "files").read_text()
    assert "checkpoint.newest" in files
    assert "partial" not in files
    assert '"resumed"' in (tmp_path / "log").read_text()
    assert_same(json.loads((tmp_path / "second.json").read_text()), expected)


def test_a_read_only_disk_is_a_clear_line(tmp_path):
    done = in_own_mount(
        f"mkdir disk; mount -t tmpfs -o ro tmpfs disk; bnt {' '.join(RUN)} --out disk", tmp_path
    )
    refused(done, "Read-only", "--out")


def test_what_is_no_run_cannot_be_resumed(tmp_path):
    (tmp_path / "empty").mkdir()
    refused(bnt("resume", "empty", cwd=tmp_path), "empty", "run.json")
    refused(bnt("resume", "nowhere", cwd=tmp_path), "nowhere")
    (tmp_path / "empty" / "run.json").write_text('{"config": {"epochs": -1}, "track": "deferred"}')
    refused(bnt("resume", "empty", cwd=tmp_path), "empty")


def test_a_run_in_a_renamed_folder_goes_on_there_and_is_not_mistaken(tmp_path):
    run = [*RUN, "--method", "er"]
    expected = record(bnt(*run, "--out", "whole", "--json", cwd=tmp_path))
    kept = lambda cwd: list(cwd.glob("runs/*/checkpoint.newest"))  # noqa: E731
    process = started([*run, *OFTEN], tmp_path, kept)
    process.kill()
    process.communicate()
    [folder] = (tmp_path / "runs").iterdir()
    mine = folder.rename(tmp_path / "runs" / "mine")
    done = bnt("resume", mine, "--json", cwd=tmp_path)
    assert "continuing from step" in done.stderr
    assert_same(record(done), expected)
    assert record(bnt("resume", mine, "--json", cwd=tmp_path))["already_there"]
    assert list((tmp_path / "runs").iterdir()) == [mine]
    asked = json.loads((mine / "run.json").read_text())
    assert asked["run"] == folder.name
    (mine / "run.json").write_text(json.dumps({"config": asked["config"]}))  # of version 0.2
    refused(bnt("resume", mine, cwd=tmp_path), "runs/mine is mine", folder.name)


def test_a_run_is_not_continued_on_other_images(tmp_path):
    for shade in (0, 9):
        arrays = np.full((8, 8, 8), shade, np.uint8), np.arange(8) % 2
        for label in (0, 1):
            for number, image in enumerate(arrays[0][:4]):
                place = tmp_path / f"photos{shade}" / str(label)
                place.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image + 20 * label + number).save(place / f"{number}.png")
    run = [
        "run",
        "--method",
        "sgd",
        "--stream",
        "folder",
        "--classes-per-task",
        "1",
        "--width",
        "2",
    ]
    done = bnt(*run, "--epochs", "1", "--data", "photos0", "--json", cwd=tmp_path)
    path = record(done)["path"]
    refused(bnt("resume", path, "--data", "photos9", cwd=tmp_path), path.split("/")[-1], "--data")


def test_a_torn_checkpoint_is_said_and_the_one_before_it_used(tmp_path):
    run = [*RUN, "--method", "er"]
    expected = record(bnt(*run, "--out", "whole", "--json", cwd=tmp_path))
    both = lambda cwd: list(cwd.glob("runs/*/checkpoint.before"))  # noqa: E731
    process = started([*run, *OFTEN], tmp_path, both)
    process.kill()
    process.communicate()
    newest = next(tmp_path.glob("runs/*/checkpoint.newest"))
    newest.write_bytes(newest.read_bytes()[:-100])
    done = bnt(*run, "--json", cwd=tmp_path)
    assert "not a whole checkpoint" in done.stderr
    assert_same(record(done), expected)
