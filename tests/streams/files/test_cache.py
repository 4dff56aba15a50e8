import hashlib
import json
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from bntricks.errors import UserError
from bntricks.runs.train import together
from bntricks.streams import open_stream
from bntricks.streams.tasks import in_one
from helpers.processes import completed


@pytest.fixture
def data(tmp_path, official):
    return official.cifar10(tmp_path / "data").parent


def entry(cache):
    (folder,) = [p for p in (cache / "images").iterdir() if p.is_dir()]
    return folder


def test_the_second_opening_decodes_nothing(heard, tiny, monkeypatch):
    open_stream("seq-tiny-imagenet", data=tiny)

    def refuse(*args, **options):
        raise AssertionError("decoded again")

    monkeypatch.setattr("PIL.Image.open", refuse)
    stream = open_stream("seq-tiny-imagenet-20", data=tiny, report=heard)
    assert stream.counts == (400, 200)
    assert heard.work == {"reading"}


def test_progress_goes_from_nothing_to_the_total(data, heard):
    open_stream("seq-cifar10", data=data, image_size=16, report=heard)
    assert heard.work == {"reading", "decoding", "resizing"}
    for kind in ("decoding cifar-10", "resizing cifar-10 to 16×16"):
        steps = [(done, total) for what, done, total in heard if what == kind]
        assert steps[0] == (0, 80)
        assert steps[-1] == (80, 80)
        assert steps == sorted(steps)


def test_a_task_is_a_view_of_the_mapped_file(data, cache):
    stream = open_stream("seq-cifar10", data=data)
    mapped = {task.train.x.untyped_storage().data_ptr() for task in stream}
    assert len(mapped) == 1
    first, second = stream[0].train.x, stream[1].train.x
    assert first.data_ptr() + first.nbytes == second.data_ptr()
    if sys.platform == "linux":
        assert str(entry(cache) / "train.u8") in Path("/proc/self/maps").read_text()


def test_all_tasks_as_one_are_a_view_of_the_mapped_file_too(data):
    stream = open_stream("seq-cifar10", data=data)
    all_of_them = together(stream).train.x
    assert all_of_them.data_ptr() == stream[0].train.x.data_ptr()
    assert torch.equal(all_of_them, torch.cat([task.train.x for task in stream]))


def test_pieces_that_do_not_follow_one_another_are_copied_in_their_order():
    rows = torch.arange(24).view(8, 3)
    for pieces in (
        [rows[4:6], rows[0:2]],
        [rows[0:2], rows[4:6]],
        [rows[0:2], rows.clone()[2:4]],
        [rows[:, :2], rows[:, 1:]],
    ):
        assert torch.equal(in_one(pieces), torch.cat(pieces))
    assert in_one([rows[2:4], rows[4:7]]).data_ptr() == rows[2:].data_ptr()


def test_writing_into_an_image_does_not_reach_the_cache(data):
    stream = open_stream("seq-cifar10", data=data)
    before = stream[0].train.x.clone()
    stream[0].train.x.zero_()
    assert torch.equal(open_stream("seq-cifar10", data=data)[0].train.x, before)


@pytest.mark.fault
@pytest.mark.parametrize(
    "damage",
    [
        lambda e: (e / "train.u8").write_bytes((e / "train.u8").read_bytes()[:-1]),
        lambda e: (e / "test.u8").write_bytes((e / "test.u8").read_bytes() + b"!"),
        lambda e: (e / "test.u8").write_bytes(b""),
        lambda e: (e / "test.u8").unlink(),
        lambda e: (e / "meta.json").write_text('{"shape": [3, 32'),
        lambda e: (e / "meta.json").write_text("[]"),
        lambda e: (e / "meta.json").write_text(
            json.dumps(json.loads((e / "meta.json").read_text()) | {"shape": [3, 32, 31]})
        ),
        lambda e: [shutil.rmtree(e), e.write_text("a file in its place")],
    ],
)
def test_a_damaged_entry_is_built_again(data, cache, heard, warned, damage):
    before = open_stream("seq-cifar10", data=data)
    images = before[4].train.x.clone()
    damaged = entry(cache)
    damage(damaged)
    again = open_stream("seq-cifar10", data=data, report=heard, warn=warned.append)
    assert "decoding" in heard.work
    assert again.fingerprint == before.fingerprint
    assert torch.equal(again[4].train.x, images)
    (warning,) = warned
    assert str(damaged) in warning
    assert "damaged" in warning


@pytest.mark.fault
@settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck])
@given(file=st.sampled_from(["train.u8", "test.u8", "meta.json"]), draw=st.data())
def test_no_flipped_bit_is_learned_from(data, cache, file, draw):
    before = open_stream("seq-cifar10", data=data, image_size=8)
    images = [task.train.x.clone() for task in before]
    (resized,) = (cache / "images").glob("*-8px")
    content = bytearray((resized / file).read_bytes())
    at = draw.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << draw.draw(st.integers(0, 7))
    (resized / file).write_bytes(content)
    warned = []
    again = open_stream("seq-cifar10", data=data, image_size=8, warn=warned.append)
    assert len(warned) == 1
    assert again.fingerprint == before.fingerprint
    assert again.class_names == before.class_names
    assert all(torch.equal(task.train.x, x) for task, x in zip(again, images, strict=True))
    assert [task.train.y.tolist() for task in again] == [task.train.y.tolist() for task in before]


@pytest.mark.fault
def test_an_image_that_moved_to_another_class_is_noticed(data, cache, warned):
    before = open_stream("seq-cifar10", data=data)
    meta = entry(cache) / "meta.json"
    values = json.loads(meta.read_text())
    values["train"][0] += 1
    values["train"][1] -= 1
    meta.write_text(json.dumps(values))
    again = open_stream("seq-cifar10", data=data, warn=warned.append)
    assert len(warned) == 1
    assert torch.equal(again[0].train.y, before[0].train.y)


def test_an_entry_of_an_earlier_version_is_built_again(data, cache, warned):
    open_stream("seq-cifar10", data=data)
    meta = entry(cache) / "meta.json"
    values = json.loads(meta.read_text())
    del values["checksum"]
    meta.write_text(json.dumps(values))
    open_stream("seq-cifar10", data=data, warn=warned.append)
    assert len(warned) == 1
    assert "checksum" in json.loads(meta.read_text())


def test_python_is_warned_as_python_warns(data, cache):
    open_stream("seq-cifar10", data=data)
    (entry(cache) / "test.u8").write_bytes(b"")
    with pytest.warns(UserWarning, match="is damaged"):
        open_stream("seq-cifar10", data=data)


def test_a_process_reads_an_entry_once_to_verify_it(data, monkeypatch):
    read = []
    digest = hashlib.file_digest
    monkeypatch.setattr(
        "hashlib.file_digest",
        lambda file, how: read.append(Path(file.name).name) or digest(file, how),
    )
    for _ in range(3):
        open_stream("seq-cifar10", data=data)
    assert [name for name in read if name.endswith(".u8")] == ["train.u8", "test.u8"]


@pytest.mark.fault
def test_two_processes_build_an_entry_once(data, tmp_path, heard, held_builder):
    other = held_builder("seq-cifar10", data, tmp_path / "go")

    def report(what, done, total):
        heard(what, done, total)
        if what.startswith("waiting"):
            (tmp_path / "go").touch()

    stream = open_stream("seq-cifar10", data=data, report=report)
    assert heard.work == {"reading", "waiting"}
    said, _ = other.communicate(timeout=30)
    assert said.splitlines()[-1] == stream.fingerprint
    assert other.returncode == 0


@pytest.mark.fault
def test_a_killed_builder_leaves_no_entry_and_no_lock(data, tmp_path, cache, heard, held_builder):
    builder = held_builder("seq-cifar10", data, tmp_path / "never")
    assert [p.suffix for p in (cache / "images").iterdir() if p.is_dir()] == [".partial"]
    builder.send_signal(signal.SIGKILL)
    assert builder.wait(10) == -signal.SIGKILL
    stream = open_stream("seq-cifar10", data=data, report=heard)
    assert heard.work == {"reading", "decoding"}
    assert stream.counts == (70, 10)
    assert list((cache / "images").iterdir()) == [entry(cache)]
    assert entry(cache).suffix != ".partial"


@pytest.mark.fault
def test_the_remains_of_another_killed_builder_are_swept_away(data, cache):
    unfinished = cache / "images" / "tiny-imagenet-0123-v1.partial"
    unfinished.mkdir(parents=True)
    (unfinished / "train.u8").write_bytes(bytes(1000))
    open_stream("seq-cifar10", data=data)
    assert not unfinished.exists()


@pytest.mark.fault
def test_the_unfinished_work_of_a_living_builder_stays(
    data, tmp_path, cache, held_builder, official
):
    held_builder("seq-cifar10", data, tmp_path / "never")
    (working,) = (cache / "images").glob("*.partial")
    official.cifar100(tmp_path)
    open_stream("seq-cifar100", data=tmp_path)
    assert working.is_dir()


@pytest.mark.fault
def test_an_interrupted_build_leaves_nothing(data, cache):
    def interrupt(what, done, total):
        if what.startswith("decoding") and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_stream("seq-cifar10", data=data, report=interrupt)
    assert list((cache / "images").iterdir()) == []


@pytest.mark.fault
def test_a_cache_that_can_only_be_read_is_enough_once_it_is_filled(data, monkeypatch):
    before = open_stream("seq-cifar10", data=data).fingerprint

    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    assert open_stream("seq-cifar10", data=data).fingerprint == before
    with pytest.raises(UserError, match="BNT_CACHE"):
        open_stream("seq-cifar10", data=data, image_size=8)


@pytest.mark.fault
def test_a_cache_folder_that_cannot_be_written_is_named(data, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("BNT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match=r"cannot write .*file/cache/images: .*set BNT_CACHE") as e:
        open_stream("seq-cifar10", data=data)
    assert "\n" not in str(e.value)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the names of open files")
def test_an_entry_is_on_disk_before_it_gets_its_name(data, monkeypatch):
    done = []
    replace = Path.replace

    def note_sync(descriptor):
        done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    def note_replace(path, target):
        done.append("replace")
        return replace(path, target)

    monkeypatch.setattr("os.fsync", note_sync)
    monkeypatch.setattr("pathlib.Path.replace", note_replace)
    open_stream("seq-cifar10", data=data)
    *pixels, meta, renamed, entry = done[:5]
    assert pixels == ["train.u8", "test.u8"]
    assert meta.startswith(".meta.json.")
    assert entry.endswith(".partial")
    assert (renamed, *done[5:]) == ("replace", "replace", "images")


@pytest.mark.fault
def test_a_full_disk_is_told_and_leaves_nothing(data, cache, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match=r"No space left on device; set BNT_CACHE"):
        open_stream("seq-cifar10", data=data)
    assert list((cache / "images").iterdir()) == []


def test_the_default_cache_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.delenv("BNT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    from bntricks.streams.files.cache import cache_folder

    assert cache_folder().is_relative_to(tmp_path)
    assert cache_folder().name == "bntricks"


def test_opening_says_nothing_on_the_terminal(data):
    script = (
        f"from bntricks.streams import open_stream; open_stream('seq-cifar10', data={str(data)!r})"
    )
    done = completed(script=script, cwd=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
