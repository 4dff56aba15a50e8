"""The study that trains nothing, from the command line: pictures of any method's recipe."""

import base64
import csv
import hashlib
import re

import pytest

from helpers.command_line import bnt, refused

pytestmark = pytest.mark.journey


def test_frameworks_leaves_a_figure_in_four_formats_and_a_page(tmp_path):
    done = bnt("study", "frameworks", "--out", "X", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "er-balance-batch" in done.stdout
    figures = tmp_path / "X" / "figures"
    starts = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG", "csv": b"method,title,EMA"}
    for kind, start in starts.items():
        assert (figures / f"frameworks.{kind}").read_bytes().startswith(start)
    assert (figures / "dilemma.svg").read_bytes().startswith(b"<svg")
    rows = list(csv.DictReader((figures / "frameworks.csv").open(encoding="utf-8")))
    tricked = next(row for row in rows if row["method"] == "er-bnt")
    assert (tricked["EMA"], tricked["model parameters"]) == ("B_b", "B_t, B_M")
    page = (tmp_path / "X" / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 5 + 1 + 3  # methods, their legend, the dilemma
    assert not re.search(r'(src|href)="(?!#)', page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{allowed}';" in page


def test_frameworks_draws_any_method_each_once(tmp_path):
    flags = ["--methods", "gem", "icarl-bnt", "gem", "--out", "X"]
    assert bnt("study", "frameworks", *flags, cwd=tmp_path).returncode == 0
    page = (tmp_path / "X" / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2 + 1 + 3
    assert "cone of past" in page
    assert "bnt study frameworks --methods gem icarl-bnt" in page


def test_an_unknown_method_or_a_bad_folder_is_a_clear_line(tmp_path):
    done = bnt("study", "frameworks", "--methods", "nonsense", cwd=tmp_path)
    refused(done, "unknown method 'nonsense'", "bnt methods lists all")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "taken").write_text("")
    done = bnt("study", "frameworks", "--out", "taken", cwd=tmp_path)
    refused(done, "cannot write the report to taken", "choose another folder")
