"""Studies from the command line: runs, verdicts, and failures that stay alone."""

import json
import shutil
import subprocess
import sys
import time

import pytest

from helpers.command_line import bnt, refused
from helpers.pages import ROOT

pytestmark = pytest.mark.journey


@pytest.mark.slow
def test_a_smoke_study_on_another_stream_runs_and_says_that_it_judges_nothing(tmp_path):
    done = bnt("study", "pilot", "--scale", "smoke", "--stream", "seq-digits", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "8 runs, " in done.stderr
    assert "missing: Verdicts: what is claimed is about Seq-CIFAR-10" in done.stdout
    assert "ER-Cur+Prev has a positive BWT" not in done.stdout
    assert len(list(tmp_path.glob("runs/*/record.json"))) == 8
    for name in ("report.html", "results.tex", "cost.tex"):
        assert (tmp_path / "runs" / name).stat().st_size > 0
    assert not (tmp_path / "runs" / "verdicts.csv").exists()
    page = (tmp_path / "runs" / "report.html").read_text()
    again = "bnt study pilot --scale smoke --streams seq-digits --out runs"
    assert again in page  # makes it again
    reported = bnt("report", "runs", "--out", "elsewhere", cwd=tmp_path)
    assert reported.returncode == 0, reported.stderr
    assert list((tmp_path / "elsewhere" / "figures").glob("*.svg"))
    page = (tmp_path / "elsewhere" / "report.html").read_text()
    assert "bnt report runs --out elsewhere" in page
    again = bnt("study", "pilot", "--scale", "smoke", "--stream", "seq-digits", cwd=tmp_path)
    assert again.stderr.count("already there") == 8


@pytest.mark.slow
def test_a_run_that_fails_does_not_take_the_others_with_it(tmp_path):
    flags = ["study", "pilot", "--scale", "smoke", "--stream", "seq-digits", "--seeds", "1"]
    bnt(*flags, cwd=tmp_path)
    victim = next(
        path
        for path in tmp_path.glob("runs/*/record.json")
        if json.loads(path.read_text())["method"] == "er-cur+buf"
    )
    victim.unlink()
    (victim.parent / "lock").unlink(missing_ok=True)
    (victim.parent / "lock").mkdir()  # nobody can work here any more
    done = bnt(*flags, cwd=tmp_path)
    assert done.returncode == 1
    assert "er-cur+buf, seed 0: cannot write" in done.stderr
    assert done.stderr.count("already there") == 3
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["statistics", "overlap"])
def test_a_study_of_features_ends_with_maps_and_a_report_shows_them_again(name, tmp_path):
    flags = ["--scale", "smoke", "--stream", "seq-digits", "--seeds", "1", "--out", "runs"]
    done = bnt("study", name, *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = {f"map-{name}-seq-digits.{kind}" for kind in ("svg", "pdf", "png", "csv")}
    assert files <= {path.name for path in (tmp_path / "runs" / "figures").iterdir()}
    assert '<section id="maps"' in (tmp_path / "runs" / "report.html").read_text()
    again = bnt("study", name, *flags, cwd=tmp_path)
    runs = len(list(tmp_path.glob("runs/*/record.json")))
    assert again.stderr.count("already there") == runs
    reported = bnt("report", "runs", "--out", "elsewhere", cwd=tmp_path)
    assert reported.returncode == 0, reported.stderr
    assert files <= {path.name for path in (tmp_path / "elsewhere" / "figures").iterdir()}
    damaged = next(tmp_path.glob(f"runs/*/map-{name}.json"))
    damaged.write_text(damaged.read_text()[:-9])
    refused(bnt("report", "runs", cwd=tmp_path), f"map-{name}.json is not a map of a run")


def test_an_unknown_study_or_method_is_a_clear_line(tmp_path):
    refused(bnt("study", "pilto", cwd=tmp_path), "unknown study 'pilto'", "did you mean pilot?")
    done = bnt("study", "pilot", "--methods", "gme", cwd=tmp_path)
    refused(done, "unknown method 'gme': did you mean gem")
    refused(bnt("study", "pilot", "--data", "nowhere", cwd=tmp_path), "nowhere", "does not exist")


@pytest.mark.slow
def test_a_study_of_ones_own_is_run_reported_and_changed(tmp_path):
    for name in ("my_method.py", "my_study.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    flags = ["study", "my_study.toml", "--import", "my_method.py"]
    done = bnt(*flags, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    verdicts = json.loads(done.stdout)["tables"][1]
    assert verdicts["title"] == "The study's claims"
    assert len(verdicts["rows"]) == 3
    reported = bnt("report", "runs", "--study", "runs/study.toml", "--json", cwd=tmp_path)
    assert json.loads(reported.stdout)["tables"][1]["rows"] == verdicts["rows"]
    changed = bnt(*flags, "--lr", "0.1", "--out", "changed", cwd=tmp_path)
    words = " ".join(changed.stdout.split())
    assert "not judged (changed protocol)" in words
    assert "Not the study's own protocol: lr 0.1 (study: 0.03)" in words


def test_a_report_of_nothing_is_a_clear_line(tmp_path):
    (tmp_path / "empty").mkdir()
    refused(bnt("report", "empty", cwd=tmp_path), "empty")
    assert not (tmp_path / "report").exists()


@pytest.mark.slow
def test_a_killed_sweep_leaves_no_worker_behind_and_goes_on_where_it_was(tmp_path):
    command = [sys.executable, "-m", "bntricks", "demo", "--quick", "--seeds", "1"]
    sweep = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob("runs/*/record.json")):
        time.sleep(0.05)
    sweep.kill()
    sweep.wait()
    time.sleep(1)
    again = bnt("demo", "--quick", "--seeds", "1", cwd=tmp_path)
    assert again.returncode == 0, again.stderr  # 1 if an orphan still held a run
    assert "already there" in again.stderr
