"""Checkpoint files: whole or noticed, never unpickled, two generations."""

import hashlib
import os
import pickle

import pytest
import torch
from hypothesis import given, strategies as st

from bntricks.errors import UserError
from bntricks.files import remove_leftovers
from bntricks.training import checkpoint
from bntricks.training.checkpoint import (
    BEFORE,
    MAGIC,
    NEWEST,
    Checkpoints,
    CorruptError,
    pack,
    unpack,
)

pytestmark = pytest.mark.fault

STATE = {
    "net": {"conv.weight": torch.arange(6.0).view(2, 3), "count": torch.tensor(3)},
    "memory": None,
    "lesson": {"t": 2, "new": [3, 4]},
    "seconds": 0.1,
}
MADE_WITH = {"seed": "0", "torch": "2.13.0"}


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return a == b


def test_a_state_comes_back_to_the_bit():
    assert same(unpack(pack(STATE)), STATE)


def test_tensors_that_are_views_or_not_contiguous_come_back_too():
    base = torch.arange(24.0).view(1, 2, 3, 4)
    state = {"a": base[0, 0], "b": base[0, 0], "c": base.to(memory_format=torch.channels_last)}
    assert same(unpack(pack(state)), state)


@given(st.data())
def test_no_altered_byte_goes_unnoticed(data):
    content = bytearray(pack(STATE))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptError):
        unpack(bytes(content))


@given(st.integers(0, len(pack(STATE)) - 1))
def test_no_torn_file_goes_unnoticed(length):
    with pytest.raises(CorruptError):
        unpack(pack(STATE)[:length])


@given(st.binary(max_size=200))
def test_whatever_carries_a_true_checksum_is_a_state_or_refused(body):
    content = MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    with pytest.raises(CorruptError):
        unpack(content)


def test_an_option_that_is_younger_than_the_checkpoint_had_its_default(tmp_path):
    Checkpoints(tmp_path, MADE_WITH).save({"step": 1})
    younger = {"defaults": {"clip": "null", "seed": "0"}}
    kept = Checkpoints(tmp_path, {**MADE_WITH, "clip": "null"}, **younger)
    assert kept.load() == kept.read_only().load() == {"step": 1}
    with pytest.raises(UserError, match=r"different values: clip null \(now 0.5\);"):
        Checkpoints(tmp_path, {**MADE_WITH, "clip": "0.5"}, **younger).load()
    with pytest.raises(UserError, match=r"different values: seed 0 \(now 1\);"):
        Checkpoints(tmp_path, {**MADE_WITH, "clip": "null", "seed": "1"}, **younger).load()


class Hostile:
    ran = False

    def __reduce__(self):
        return (setattr, (Hostile, "ran", True))


@pytest.mark.parametrize("signed", [False, True])
def test_a_pickle_in_the_place_of_a_checkpoint_is_never_run(tmp_path, signed):
    attack = pickle.dumps(Hostile())
    if signed:
        attack = MAGIC + hashlib.sha256(attack).hexdigest().encode() + b"\n" + attack
    (tmp_path / NEWEST).write_bytes(attack)
    warnings = []
    assert Checkpoints(tmp_path, MADE_WITH, warn=warnings.append).load() is None
    assert not Hostile.ran
    assert NEWEST in warnings[0]


def test_the_one_before_serves_when_the_newest_is_torn(tmp_path):
    warnings = []
    kept = Checkpoints(tmp_path, MADE_WITH, warn=warnings.append)
    for step in (1, 2, 3):
        kept.save({"step": step})
    assert kept.load() == {"step": 3}
    (tmp_path / NEWEST).write_bytes((tmp_path / NEWEST).read_bytes()[:-1])
    assert kept.load() == {"step": 2}
    assert len(warnings) == 1
    assert "trying the one before it" in warnings[0]
    (tmp_path / BEFORE).write_bytes(b"")
    assert kept.load() is None
    assert len(warnings) == 2
    assert "starting over" in warnings[1]


def make_folder(path):
    path.mkdir()
    (path / "somebody's file").touch()


@pytest.mark.parametrize(
    "replace",
    [lambda path: path.write_bytes(b"torn"), make_folder, os.mkfifo],
    ids=["a torn file", "a folder", "a pipe"],
)
def test_what_is_no_checkpoint_never_takes_the_place_of_a_whole_one(tmp_path, replace):
    warnings = []
    kept = Checkpoints(tmp_path, MADE_WITH, warn=warnings.append)
    for step in (1, 2):
        kept.save({"step": step})
    (tmp_path / NEWEST).unlink()
    replace(tmp_path / NEWEST)
    assert kept.load() == {"step": 1}
    assert NEWEST in warnings[0]
    kept.save({"step": 3})
    (tmp_path / NEWEST).unlink()  # a kill between the two renames
    assert kept.load() == {"step": 1}
    kept.save({"step": 4})
    assert kept.load() == {"step": 4}
    kept.remove()
    assert not (tmp_path / NEWEST).exists()
    assert not (tmp_path / BEFORE).exists()


def test_a_folder_in_a_checkpoints_place_does_not_keep_a_run_from_starting_over(tmp_path):
    make_folder(tmp_path / NEWEST)
    kept = Checkpoints(tmp_path, MADE_WITH)
    kept.remove()
    kept.save({"step": 1})
    assert kept.load() == {"step": 1}


def test_a_process_that_does_not_write_moves_nothing(tmp_path):
    (tmp_path / NEWEST).write_bytes(b"torn")
    assert Checkpoints(tmp_path, MADE_WITH, writes=False).load() is None
    assert [path.name for path in tmp_path.iterdir()] == [NEWEST]


def test_a_writer_killed_between_its_renames_costs_nothing(tmp_path):
    kept = Checkpoints(tmp_path, MADE_WITH)
    kept.save({"step": 1})
    (tmp_path / NEWEST).rename(tmp_path / BEFORE)
    assert kept.load() == {"step": 1}


def test_a_write_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    kept = Checkpoints(tmp_path, MADE_WITH)
    kept.save({"step": 1})

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        kept.save({"step": 2})
    assert kept.load() == {"step": 1}
    assert {path.name for path in tmp_path.iterdir()} == {NEWEST}


def test_leftovers_of_a_killed_writer_are_swept_up(tmp_path):
    Checkpoints(tmp_path, MADE_WITH).save({"step": 1})
    left = tmp_path / f".{NEWEST}.12ab34cd.partial"
    left.write_bytes(b"half")
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {NEWEST}


def test_a_checkpoint_of_another_version_is_refused_with_what_differs(tmp_path):
    Checkpoints(tmp_path, MADE_WITH).save({"step": 1})
    other = Checkpoints(tmp_path, {"seed": "0", "torch": "9.9", "new": "1"})
    with pytest.raises(UserError) as refused:
        other.load()
    assert "torch 2.13.0 (now 9.9)" in str(refused.value)
    assert "new unset (now 1)" in str(refused.value)
    assert "seed" not in str(refused.value)
    assert refused.value.remedy == "force"


def test_a_digest_tells_any_two_states_apart():
    other = {**STATE, "net": {**STATE["net"], "count": torch.tensor(4)}}
    assert checkpoint.digest(STATE) == checkpoint.digest(dict(STATE))
    assert checkpoint.digest(STATE) != checkpoint.digest(other)
