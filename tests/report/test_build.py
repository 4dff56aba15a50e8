"""One report is one value: computed once, written whole, and refused before anything is written."""

import errno
import pkgutil
import re
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import FrozenInstanceError
from hashlib import sha256
from pathlib import Path

import altair as alt
import pytest

import bntricks.report
from bntricks.errors import UserError
from bntricks.paper import load_study
from bntricks.report import build as building, files, groups as grouping, write_report
from bntricks.report.build import build
from bntricks.report.files import write
from bntricks.report.records import load_records
from helpers import feature_maps
from helpers.records import a_run, runs, written

PILOT = load_study("pilot")
KNOBS = PILOT.values("lite", "seq-cifar10")


@pytest.fixture
def pilot():
    return [*runs("er", [60.0, 61.0], **KNOBS), *runs("er-cur+buf", [70.0, 71.0], **KNOBS)]


def counted(monkeypatch, module, *names):
    """How often these functions of a module are called from now on."""
    calls = Counter()

    def wrap(name, function):
        def wrapper(*args, **kwargs):
            calls[name] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, wrapper)

    for name in names:
        wrap(name, getattr(module, name))
    return calls


def counted_specs(monkeypatch):
    """How many charts are turned into Vega-Lite, not counting the parts of a chart."""
    calls, depth, to_dict = Counter(), 0, alt.TopLevelMixin.to_dict

    def wrapper(chart, *args, **kwargs):
        nonlocal depth
        calls["specs"] += depth == 0
        depth += 1
        try:
            return to_dict(chart, *args, **kwargs)
        finally:
            depth -= 1

    monkeypatch.setattr(alt.TopLevelMixin, "to_dict", wrapper)
    return calls


def test_everything_in_a_report_is_computed_once(tmp_path, monkeypatch, pilot):
    once = ("group", "verdicts", "paper_form", "results_table", "verdict_table", "verdict_chart")
    per_stream = ("curves", "per_task", "task_lines", "matrices", "cost")
    calls = counted(monkeypatch, building, *once, "cut_down_label", "by_stream", *per_stream)
    duplicates = counted(monkeypatch, grouping, "unique")
    specs = counted_specs(monkeypatch)
    other_stream = runs("er", [40.0, 41.0], stream="seq-digits")
    write_report([*pilot, *other_stream], tmp_path, PILOT, "lite")
    expected = dict.fromkeys((*once, "cut_down_label", "by_stream"), 1)
    assert calls == expected | dict.fromkeys(per_stream, 2)
    assert duplicates == {"unique": 1}
    assert specs == {"specs": 2 * 4 + 1}  # cost is the same for all, and not drawn


def test_maps_are_drawn_once(tmp_path, monkeypatch):
    run = feature_maps.written(tmp_path, {"statistics": feature_maps.of_statistics()})
    records = load_records([run])
    calls = counted(monkeypatch, building, "feature_maps")
    specs = counted_specs(monkeypatch)
    write_report(records, tmp_path / "report")
    assert calls == {"feature_maps": 1}
    assert specs == {"specs": 5}


def test_a_report_does_not_change(pilot):
    report = build(pilot)
    with pytest.raises(FrozenInstanceError):
        report.title = "another"


def test_a_report_is_tables_figures_and_the_page(tmp_path, pilot):
    report = build(pilot, PILOT, "lite", command="bnt report x")
    page = write(report, tmp_path / "new" / "report")
    folder = page.parent
    assert page == tmp_path / "new" / "report" / "report.html"
    tables = {f"{name}.{end}" for name in ("results", "verdicts") for end in ("md", "csv", "tex")}
    tables |= {"cost.md", "cost.tex"}
    assert {p.name for p in folder.iterdir()} == {
        *tables,
        "figures",
        "leaderboard.html",
        "measurements.csv",
        "runs.csv",
        files.WRITTEN,
        "report.html",
    }
    kinds = ("curves", "per-task", "over-time", "matrices")
    names = (*(f"{kind}-seq-cifar10" for kind in kinds), "differences")
    assert {p.name for p in (folder / "figures").iterdir()} == {
        f"{name}.{end}" for name in names for end in ("svg", "pdf", "png", "csv")
    }
    html = page.read_text()
    assert f"<title>{PILOT.title} (lite scale)</title>" in html
    ids = re.findall(r' id="([^"]+)"', html)
    assert {"verdicts", "verdict-table", "differences"} <= set(ids)
    assert len(ids) == len(set(ids))


def test_the_tables_to_print_are_results_and_with_claims_verdicts(pilot):
    forms = ["ACC and BWT", "Data and cost"]
    assert [table.title for table in build(pilot).tables] == ["Results", *forms]
    report = build(pilot, PILOT, "lite")
    assert [table.title for table in report.tables[:2]] == ["Results", "The paper's claims"]
    assert len(report.tables[1].rows) == len(report.verdicts) == len(PILOT.claims)


@pytest.mark.parametrize(
    ("others", "remark"), [([], " (cut-down data)"), ([a_run("gem")], " (partly cut-down data)")]
)
def test_cut_down_data_is_said_beside_the_claims_and_in_the_summary(others, remark):
    cut_down = [
        run
        for method, final in (("er", 60.0), ("er-cur+buf", 70.0))
        for run in runs(method, [final, final + 1], cut_down=True, **KNOBS)
    ]
    report = build([*cut_down, *others], PILOT, "lite")
    assert f"Ours{remark}" in report.tables[1].columns
    assert report.summary.endswith(f" Learned from {remark.strip(' ()')}.")


RECIPES_DRAWN = {f"bntricks.report.diagrams.{name}" for name in ("frameworks", "panels")}
RECIPES_DRAWN |= {f"bntricks.report.diagrams.{name}" for name in ("passes", "tiles")}
"""Recipes need torch, so these are imported when recipes are drawn."""
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(bntricks.report.__path__, f"{bntricks.report.__name__}.")
    if module.name not in RECIPES_DRAWN
)


def test_no_module_of_a_report_imports_torch_unless_it_draws_recipes():
    code = f"import sys\nfor name in {MODULES}: __import__(name)\nsys.exit('torch' in sys.modules)"
    assert len(MODULES) > 15
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_report_needs_no_torch(tmp_path):
    written(tmp_path, a_run())
    code = (
        "import sys; from bntricks.report import write_report;"
        "from bntricks.report.records import load_records;"
        f"write_report(load_records([{str(tmp_path)!r}]), {str(tmp_path / 'report')!r});"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert (tmp_path / "report" / "report.html").is_file()


def test_a_study_of_mixed_protocols_is_refused_before_anything_is_written(tmp_path):
    mixed = [a_run("er", 0, **KNOBS), a_run("er", 1, **{**KNOBS, "epochs": 3})]
    with pytest.raises(UserError, match=r"mixed protocols: er .* differ in epochs"):
        write_report(mixed, tmp_path / "report", PILOT, "lite")
    assert not (tmp_path / "report").exists()


def test_what_cannot_be_reported_is_said(tmp_path, pilot):
    with pytest.raises(UserError, match="no runs to report"):
        write_report([], tmp_path / "report")
    with pytest.raises(UserError, match="give both, or neither"):
        write_report(pilot, tmp_path / "report", PILOT)


def test_a_folder_that_cannot_be_written_is_named_and_the_option_too(tmp_path, pilot):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write the report to .*file") as refusal:
        write_report(pilot, tmp_path / "file")
    assert refusal.value.remedy == "out"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def everything_in(folder):
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


OLD, NEW = ({f"{name}.txt": word for name in "abcde"} for word in (b"old", b"new"))


@pytest.mark.fault
def test_a_figure_that_cannot_be_drawn_is_named_and_the_rest_is_written(
    tmp_path, monkeypatch, pilot
):
    def fails(spec, **options):
        raise ValueError("Vega-Lite to PDF conversion failed:\nno such \x1b[31mfont")

    monkeypatch.setattr(files.vl_convert, "svg_to_pdf", fails)
    said = []
    page = files.write(build(pilot), tmp_path / "report", warn=said.append)
    assert re.match(r"cannot draw the figure curves-.*: no such \\x1b\[31mf", said[0])
    assert page.exists()
    assert not [*(tmp_path / "report").glob("figures/*")]


@pytest.mark.fault
def test_a_disk_that_fills_up_leaves_the_last_report_as_it_was(tmp_path, monkeypatch):
    files.write_whole(tmp_path, OLD)
    before, left = everything_in(tmp_path), [2]

    def full(descriptor):
        left[0] -= 1
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        files.write_whole(tmp_path, NEW)
    assert everything_in(tmp_path) == before


@pytest.mark.fault
def test_a_folder_in_a_files_place_is_noticed_before_anything_is_replaced(tmp_path):
    files.write_whole(tmp_path, OLD)
    (tmp_path / "d.txt").unlink()
    (tmp_path / "d.txt").mkdir()
    before = everything_in(tmp_path)
    with pytest.raises(UserError, match=r"d\.txt is a folder"):
        files.write_whole(tmp_path, NEW)
    assert everything_in(tmp_path) == before


@pytest.mark.fault
def test_what_a_killed_writer_left_is_removed(tmp_path):
    name = next(iter(NEW))
    (tmp_path / f".{name}.0123abcd.partial").write_text("half a")
    files.write_whole(tmp_path, NEW)
    assert {path.name for path in tmp_path.iterdir()} == {*NEW, files.WRITTEN}


def test_what_only_an_earlier_report_wrote_is_removed(tmp_path, pilot):
    write(build(pilot, PILOT, "lite"), tmp_path)
    for name in ("notes.md", "figures/mine.svg"):
        (tmp_path / name).write_text("mine")
    changed = tmp_path / "verdicts.md"
    changed.write_text("with a remark of mine")
    write(build(pilot), tmp_path)
    assert not (tmp_path / "verdicts.csv").exists()
    assert not list(tmp_path.glob("figures/differences.*"))
    assert changed.read_text() == "with a remark of mine"
    assert (tmp_path / "notes.md").exists()
    assert (tmp_path / "figures" / "mine.svg").exists()
    again = everything_in(tmp_path)
    write(build(pilot), tmp_path)
    assert everything_in(tmp_path).keys() == again.keys()


@pytest.mark.fault
@pytest.mark.parametrize("listed", ["[1]", "{", '{"../outside": "%s"}', '{"a link": "%s"}'])
def test_nothing_else_is_removed_whatever_the_list_of_files_says(tmp_path, listed):
    outside, folder = tmp_path / "outside", tmp_path / "report"
    outside.write_bytes(b"mine")
    folder.mkdir()
    (folder / "a link").symlink_to(outside)
    listed = listed.replace("%s", sha256(b"mine").hexdigest())
    (folder / files.WRITTEN).write_text(listed)
    files.write_whole(folder, NEW)
    assert outside.read_bytes() == b"mine"
    assert (folder / "a link").is_symlink()


@pytest.mark.fault
def test_a_request_to_stop_waits_until_every_file_is_in_its_place(tmp_path, monkeypatch):
    files.write_whole(tmp_path, OLD)
    replace = Path.replace

    def interrupted(path, target):
        signal.raise_signal(signal.SIGINT)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    stops = []
    usual = signal.signal(signal.SIGINT, lambda number, frame: stops.append(number))
    try:
        with pytest.raises(SystemExit):
            files.write_whole(tmp_path, NEW)
    finally:
        signal.signal(signal.SIGINT, usual)
    assert stops
    assert {name: (tmp_path / name).read_bytes() for name in NEW} == NEW
    assert sha256(b"new").hexdigest() in (tmp_path / files.WRITTEN).read_text()
