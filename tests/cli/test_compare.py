"""`bnt compare` as a user types it."""

import json

import pytest

from helpers.command_line import bnt, refused
from helpers.records import runs, written

pytestmark = pytest.mark.journey


def test_two_folders_of_runs_are_compared(tmp_path):
    written(tmp_path / "a", *runs("er-bnt", [60.0, 62.0]))
    written(tmp_path / "b", *runs("er", [50.0, 51.0]))
    done = bnt(
        "compare", "a", "b", "--metrics", "acc", "--report", "d.html", "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    [pair] = json.loads(done.stdout)["pairs"]
    [row] = pair["differences"]["rows"]
    assert row["A − B"] == 10.5
    assert "bnt compare a b" in (tmp_path / "d.html").read_text()
    refused(bnt("compare", "a", "away", cwd=tmp_path), "away: no such file or folder")


HOSTILE = "a\x1b]0;owned\x07\u202etxt.\u2066\nrm -rf ~"
RAW = set("\x1b\x07\u202e\u2066")


def test_commands_to_copy_hold_no_raw_control_or_direction(tmp_path):
    written(tmp_path / HOSTILE, *runs("er-bnt", [60.0, 62.0]))
    written(tmp_path / "b", *runs("er", [50.0, 51.0]))
    pages = tmp_path / "d.html", tmp_path / HOSTILE / "report.html"
    for words in (
        ("compare", HOSTILE, "b", "--report", "d.html"),
        ("report", HOSTILE, "--out", HOSTILE),
    ):
        done = bnt(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert not RAW & {*done.stdout, *done.stderr}
    own = tmp_path / HOSTILE
    for page in pages:
        text = page.read_text()
        assert not RAW & set(text)
        assert r"$&#x27;a\x1b]0;owned\x07\xe2\x80\xaetxt." in text
    assert not [*own.rglob("*.lock")]
