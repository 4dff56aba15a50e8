"""bntricks.files: what every writer in the package relies on."""

import os
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bntricks.errors import HeldError, UserError
from bntricks.files import (
    command_line,
    commit,
    held,
    remove_leftovers,
    sync,
    write_atomically,
    write_errors,
)
from helpers.crash_points import crash_points

HOLD = """
import pathlib, sys, time
from bntricks.files import held
with held(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def holder():
    """Start a process that holds a path; returns once it does."""
    processes = []

    def start(path):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def is_held(path, **where):
    """As anybody else sees it."""

    def take():
        with held(path, **where):
            pass

    with ThreadPoolExecutor(1) as other:
        return isinstance(other.submit(take).exception(), HeldError)


@pytest.mark.fault
def test_what_another_process_holds_is_refused_at_once_and_free_after_a_kill(tmp_path, holder):
    path = tmp_path / "model"
    path.write_bytes(b"weights")
    process = holder(path)
    with pytest.raises(HeldError, match="model is being worked on by another process"), held(path):
        pass
    process.kill()
    process.wait()
    with held(path):
        pass
    assert path.read_bytes() == b"weights"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.fault
def test_whoever_waits_gets_it_when_the_holder_is_killed(tmp_path, holder):
    process = holder(tmp_path / "model")
    threading.Timer(0.3, process.kill).start()
    with held(tmp_path / "model", wait=True):
        assert process.wait(10)


def test_holding_leaves_the_file_and_its_folder_as_they_were(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"weights")
    before = path.stat()
    with held(path):
        assert {p.name for p in tmp_path.iterdir()} == {"model", ".model.lock"}
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino
    assert list(tmp_path.iterdir()) == [path]


def test_the_lock_can_lie_elsewhere_and_is_free_after_an_error(tmp_path):
    def fail():
        with held(tmp_path, lock=tmp_path / "lock"):
            assert (tmp_path / "lock").exists()
            assert is_held(tmp_path, lock=tmp_path / "lock")
            raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            fail()
    assert list(tmp_path.iterdir()) == []


def test_a_link_and_its_file_share_their_lock(tmp_path):
    (tmp_path / "model").touch()
    (tmp_path / "link").symlink_to("model")
    with held(tmp_path / "link"):
        assert is_held(tmp_path / "model")


def test_a_thread_may_hold_what_it_holds_and_lets_go_of_it_once(tmp_path):
    path, other = tmp_path / "model", tmp_path / "other"
    with held(path):
        with held(other, path):
            assert is_held(path)
        assert is_held(path)
        assert not is_held(other)
    assert not is_held(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault
def test_only_one_of_many_is_inside_though_each_removes_the_lock(tmp_path):
    inside, most = [], []

    def enter():
        for _ in range(20):
            with held(tmp_path / "target", wait=True):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80
    assert max(most) == 1


@pytest.mark.fault
def test_a_lock_that_cannot_be_made_is_an_error_of_the_system(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(IsADirectoryError), held(tmp_path, lock=tmp_path / "lock"):
        pass


@pytest.mark.fault
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "record"
    write_atomically(path, b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.fault
def test_a_file_that_cannot_be_written_is_named_in_one_line(tmp_path):
    path = tmp_path / "none" / "two\nlines"
    with pytest.raises(UserError, match="none/two") as raised, write_errors(path):
        write_atomically(path, b"content")
    reason = "No such file or directory"
    assert str(raised.value) == f"cannot write {tmp_path}/none/two\\nlines: {reason}"


def test_what_was_there_before_can_be_kept(tmp_path):
    for content in (b"first", b"second"):
        write_atomically(tmp_path / "newest", content, keep=tmp_path / "before")
    assert (tmp_path / "newest").read_bytes() == b"second"
    assert (tmp_path / "before").read_bytes() == b"first"


def test_leftovers_are_removed_and_nothing_else(tmp_path):
    ours = {".record.0123abcd.partial", ".other.0123abcd.partial"}
    others = {".notes.partial", "record.0123abcd.partial", ".record.xxxxxxxx.partial", "record"}
    for name in ours | others:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "record")
    assert {path.name for path in tmp_path.iterdir()} == others | {".other.0123abcd.partial"}
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == others


@pytest.mark.fault
def test_several_files_are_written_all_or_none(tmp_path, monkeypatch):
    paths = [tmp_path / name for name in "abc"]
    commit(dict.fromkeys(paths, b"old"))
    sync_all, left = os.fsync, [2]

    def full(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        sync_all(descriptor)

    monkeypatch.setattr("os.fsync", full)
    with (
        pytest.raises(UserError, match=r"cannot write .*a, .*b, .*c: No space"),
        write_errors(*paths),
    ):
        commit(dict.fromkeys(paths, b"new"))
    assert {path.read_bytes() for path in paths} == {b"old"}
    assert sorted(tmp_path.iterdir()) == paths


@pytest.mark.fault
def test_a_request_to_stop_waits_for_the_last_of_several_files(tmp_path):
    script = (
        "import os, pathlib, signal, sys\n"
        "from bntricks.files import commit\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "replace = pathlib.Path.replace\n"
        "def asked(path, target):\n"
        "    replace(path, target)\n"
        "    if target.name == 'a': os.kill(os.getpid(), signal.SIGTERM)\n"
        "pathlib.Path.replace = asked\n"
        "commit({pathlib.Path(name).absolute(): b'new' for name in 'abc'})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path)
    assert done.returncode == 143
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a", "b", "c"]


@pytest.mark.fault
def test_the_same_commit_again_completes_one_that_was_killed(tmp_path):
    paths, outdated = [tmp_path / name for name in "abc"], tmp_path / "outdated"

    def begin_anew():
        for path in (*paths, outdated):
            path.write_bytes(b"old")

    def work():
        gone = (path for path in [outdated] if path.exists())
        commit(dict.fromkeys(paths, b"new"), outdated=gone)

    begin_anew()
    points = 0
    for point in crash_points(work, tmp_path):
        work()
        assert sorted(tmp_path.iterdir()) == paths, point
        assert {path.read_bytes() for path in paths} == {b"new"}, point
        begin_anew()
        points += 1
    assert points >= 8


@pytest.mark.parametrize(
    "name", ["two\nlines", "\x1b[31mred", "\u202egnp.exe", "a'b\\c\x07", "\udcff"]
)
def test_a_command_that_is_copied_has_no_raw_control_and_names_the_same_file(tmp_path, name):
    path = tmp_path / name
    path.write_text("content")
    command = command_line(["cat", path])
    assert command.isprintable()
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout == "content", done.stderr


def test_syncing_a_folder_is_left_out_where_the_system_cannot(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr("os.fsync", calls.append)
    (tmp_path / "file").touch()
    sync(tmp_path / "file")
    sync(tmp_path)
    assert len(calls) == 2
    monkeypatch.setattr("os.open", lambda *args: pytest.fail("Windows cannot open a folder"))
    monkeypatch.setattr("bntricks.files.os.name", "nt")
    sync(tmp_path)


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    (tmp_path / "folder").mkdir()
    link.symlink_to("folder/between")
    (tmp_path / "folder" / "between").symlink_to(target)
    for content in (b"first", b"second"):  # also while the target is not there yet
        write_atomically(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert {path.name for path in tmp_path.rglob("*")} == {"target", "link", "folder", "between"}


@pytest.fixture(params=["folder", "pipe", "socket", "device"])
def no_file(request, tmp_path, monkeypatch):
    """Something else than a file, and its kind."""
    monkeypatch.chdir(tmp_path)  # the path of a socket has to be short
    path = tmp_path / "output"
    match request.param:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind("output")
        case "device":
            path.symlink_to(os.devnull)
    return path, request.param


def test_what_is_no_file_is_not_replaced(no_file):
    path, kind = no_file
    before = path.stat()
    with pytest.raises(UserError, match=f"output is a {kind}: give the name of a file"):
        write_atomically(path, b"content")
    assert path.stat() == before
    assert list(path.parent.iterdir()) == [path]


def test_every_command_refuses_to_write_over_what_is_no_file(no_file, model, refused, first):
    path, kind = no_file
    for words in (
        ("export", model, "--onnx", path),
        ("export", model, "--safetensors", path),
        ("recalibrate", model, "--data", first, "--out", path, "--force"),
        ("diagnose", model, "--data", first, "--out", path),
        ("learn", first, "--into", path),
    ):
        refused(*words, words=[f"output is a {kind}: give the name of a file to write"])


@pytest.mark.parametrize("name", ["report.html", "figures/frameworks.svg"])
def test_a_report_is_not_written_over_what_is_no_file(tmp_path, refused, name):
    target = tmp_path / "report" / name
    target.parent.mkdir(parents=True)
    os.mkfifo(target)
    refused("study", "frameworks", "--out", tmp_path / "report", words=[f"{name} is a pipe"])
    assert stat.S_ISFIFO(target.stat().st_mode)
