"""Figures draw the means that the records have, and reach the disk in every format."""

import csv
import io
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from bntricks.paper import load_study
from bntricks.report.build import build
from bntricks.report.figures.claims import verdict_chart
from bntricks.report.figures.lines import cost, curves, per_task
from bntricks.report.figures.panels import matrices, task_lines
from bntricks.report.files import rendered, svg, write_whole
from bntricks.report.groups import group
from bntricks.report.verdicts import verdicts
from helpers.records import HOSTILE, a_run

R = [[80.0, None], [40.0, 60.0]]
S = [[90.0, None], [50.0, 80.0]]
RUNS = [
    a_run("er", 0, r=R),
    a_run("er", 1, r=S),
    a_run("joint", 0, r=[[None, None], [85.0, 95.0]], memory=None),
]
GROUPS = group(RUNS)
BUILDERS = (curves, per_task, task_lines, matrices)


def drawn(figure, *keys):
    return [tuple(row[key] for key in ("label", *keys)) for row in figure.rows]


def test_curves_are_means_over_the_seeds_with_a_band_of_one_deviation():
    figure = curves(GROUPS)
    assert drawn(figure, "task", "acc", "seeds") == [
        ("Joint Training", 2, 90.0, 1),
        ("ER", 1, 85.0, 2),
        ("ER", 2, 57.5, 2),  # (50 + 65) / 2
    ]
    last = figure.rows[-1]
    assert last["sd"] == pytest.approx(112.5**0.5)
    assert (last["low"], last["high"]) == (57.5 - last["sd"], 57.5 + last["sd"])
    assert figure.rows[0]["sd"] is None


def test_tasks_in_the_end_and_whole_matrices():
    assert drawn(per_task(GROUPS), "task", "acc") == [
        *(("Joint Training", 1, 85.0), ("Joint Training", 2, 95.0)),
        *(("ER", 1, 45.0), ("ER", 2, 70.0)),
    ]
    assert drawn(matrices(GROUPS), "after", "task", "acc") == [
        *(("Joint Training", 2, 1, 85.0), ("Joint Training", 2, 2, 95.0)),
        *(("ER", 1, 1, 85.0), ("ER", 2, 1, 45.0), ("ER", 2, 2, 70.0)),
    ]


def test_cost_has_passes_and_speed_beside_accuracy():
    fast = a_run("er", 1, r=S, images_per_second=3000.0)
    row, _ = cost(group([RUNS[0], fast, a_run("er-bnt", forwards_per_step=3.0)])).rows
    assert (row["acc"], row["forwards_per_step"], row["images_per_second"]) == (57.5, 2.0, 2000.0)


@pytest.mark.parametrize("builder", BUILDERS)
def test_two_protocols_are_two_series(builder):
    rows = builder(group([a_run(final=40.0, epochs=1), a_run(final=60.0, epochs=2)])).rows
    assert {row["label"] for row in rows} == {"ER (epochs 1)", "ER (epochs 2)"}
    assert {row["seeds"] for row in rows} == {1}


@pytest.mark.parametrize("builder", BUILDERS)
def test_cut_down_data_is_in_the_title(builder):
    cut_down, full = a_run(cut_down=True), a_run("gem")
    assert builder(group([cut_down])).title.endswith(" (cut-down data)")
    assert builder(group([cut_down, full])).title.endswith(" (partly cut-down data)")
    assert builder(group([full])).title.endswith("Seq-CIFAR-10")


@pytest.mark.parametrize("builder", [curves, per_task])
def test_a_legend_picks_methods_out(builder):
    params = {param["name"]: param for param in builder(GROUPS).spec["params"]}
    assert (params["pick"]["bind"], params["pick"]["select"]["fields"]) == ("legend", ["label"])


def test_a_dozen_methods_are_told_apart_without_colour():
    spec = curves(group([a_run(f"m{i}") for i in range(13)])).spec
    scales = [
        layer["encoding"][channel]["scale"]["range"]
        for channel in ("color", "strokeDash", "shape")
        for layer in spec["layer"]
        if channel in layer["encoding"]
    ]
    looks = [str(look) for look in zip(scales[0], scales[-2], scales[-1], strict=True)]
    assert len(set(looks)) == 13
    monochrome = itertools.pairwise(zip(scales[-2], scales[-1], strict=True))
    assert all(one != other for one, other in monochrome)


def judged():
    """A study's runs, on cut-down data, and the judgements of its claims."""
    study = load_study("main")
    knobs = study.values("lite", "seq-cifar10")
    runs = [
        a_run(method, seed, final + seed, cut_down=True, **knobs)
        for method, final in (("er", 50.0), ("er-bnt", 60.0))
        for seed in range(3)
    ]
    return verdicts(study, "lite", group(runs))


def test_claims_show_our_interval_and_the_papers_difference():
    figure = verdict_chart(judged(), "(cut-down data)")
    ours, paper, *_ = figure.rows
    assert ours["claim"] == "1. ER-BNT − ER, ACC, Seq-CIFAR-10"
    assert (ours["difference"], ours["shown"], ours["seeds"]) == (10.0, "suggested", 3)
    assert paper["difference"] == pytest.approx(72.08 - 61.62)
    assert (paper["shown"], paper["low"]) == ("the paper", None)
    assert "ACC: difference in points (cut-down data)" in str(figure.spec)


def test_the_legend_of_the_claims_names_what_is_drawn_and_no_more():
    def legend(judgements):
        _, span, *_ = verdict_chart(judgements).spec["concat"][0]["layer"]
        return span["encoding"]["color"]["scale"]["domain"]

    assert legend(judged()) == ["suggested", "the paper"]
    few = [replace(each, verdict="not judged", reason="2 seeds") for each in judged()]
    assert legend(few) == ["not judged", "the paper"]


def test_claims_about_different_metrics_have_axes_of_their_own():
    panels = verdict_chart(judged()).spec["concat"]
    titles = [panel["layer"][1]["encoding"]["x"]["title"] for panel in panels]
    assert titles == ["ACC: difference in points", "BWT: difference in points"]


def test_claims_of_which_none_was_run_have_no_figure():
    assert verdict_chart(verdicts(load_study("main"), "lite", [])) is None
    assert verdict_chart([]) is None


def test_figures_reach_the_disk_whole(tmp_path):
    (part,) = build([*RUNS, a_run(HOSTILE)]).streams
    for figure in (*part.figures, verdict_chart(judged())):
        write_whole(tmp_path / figure.name, rendered(figure))
        paths = {path.suffix: path for path in tmp_path.glob(f"*/{figure.name}.*")}
        assert set(paths) == {".svg", ".pdf", ".png", ".csv"}
        assert paths[".pdf"].read_bytes().startswith(b"%PDF-")
        assert paths[".png"].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert ElementTree.parse(paths[".svg"]).getroot().tag.endswith("svg")
        assert all(path.stat().st_size > 2000 for kind, path in paths.items() if kind != ".csv")
        table = list(csv.DictReader(io.StringIO(paths[".csv"].read_text())))
        assert len(table) == len(figure.rows)
        assert list(table[0]) == list(figure.rows[0])
    drawn = (tmp_path / "curves-seq-cifar10" / "curves-seq-cifar10.svg").read_text()
    assert "<b>" not in drawn
    assert HOSTILE in "".join(ElementTree.fromstring(drawn).itertext())


def test_a_figure_is_the_same_file_whatever_was_drawn_before_it():
    (part,) = build(RUNS).streams
    first, again = [{figure.name: svg(figure) for figure in part.figures} for _ in range(2)]
    assert first == again
    assert any(b'clip-path="url(#clip0)"' in drawn for drawn in first.values())


def test_names_of_streams_are_safe_and_distinct_file_names():
    report = build([a_run(stream="../a b"), a_run(stream="a/b")])
    names = [figure.name for figure in report.figures]
    assert len(names) == len(set(names)) == 8
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in names)


@pytest.mark.fault
@pytest.mark.parametrize(
    "name", ["er\x00", "\x1b[31mer", "\ufffe", "\ud800", "😀" * 200, "x" * 10_000]
)
def test_no_name_can_take_the_chart_library_down(name):
    *_, figure = build([*RUNS, a_run(name)]).streams[0].figures
    code = "import sys, vl_convert; vl_convert.vegalite_to_png(sys.stdin.read())"
    spec = json.dumps(figure.spec)  # drawn elsewhere: what goes wrong here ends the process
    drawn = subprocess.run([sys.executable, "-c", code], input=spec, capture_output=True, text=True)
    assert drawn.returncode == 0, drawn.stderr[-300:]


def test_long_names_that_begin_alike_stay_two():
    labels = [each.label for each in group([a_run("x" * 400 + end) for end in "ab"])]
    assert len(set(labels)) == 2
    assert max(map(len, labels)) < 320
