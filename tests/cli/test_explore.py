"""`bnt explore` as a user types it."""

import pytest

from helpers.command_line import bnt, refused
from helpers.probed import a_pair
from helpers.records import runs, written

pytestmark = pytest.mark.journey


def test_a_page_is_made_of_runs_that_were_probed(tmp_path):
    written(tmp_path / "runs", *a_pair())
    done = bnt("explore", "runs", "--out", "e.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "page written to e.html" in done.stdout
    assert "bnt explore runs --out e.html" in (tmp_path / "e.html").read_text(encoding="utf-8")


def test_what_cannot_be_shown_or_written_is_a_line(tmp_path):
    written(tmp_path / "plain", *runs("er", [50.0]))
    refused(bnt("explore", "plain", cwd=tmp_path), "(--probe)")
    record = next((tmp_path / "plain").rglob("record.json")).relative_to(tmp_path)
    refused(bnt("explore", "plain", "--out", str(record), cwd=tmp_path), "is an input")
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    refused(bnt("explore", "plain", "--out", "notes.txt", cwd=tmp_path), "notes.txt", ".html")
    assert notes.read_text() == "mine"
