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
