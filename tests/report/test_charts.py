"""Figures draw the means that the records have, and reach the disk in every format."""

import csv
import io
import itertools
from xml.etree import ElementTree

import pytest

from bntricks.errors import UserError
from bntricks.paper import load_study
from bntricks.report.charts import cost, curves, matrices, per_task, verdict_chart
from bntricks.report.figures import save, spec, stream_figures, verdict_figure
from bntricks.report.verdicts import verdicts
from helpers.records import HOSTILE, a_run

R = [[80.0, None], [40.0, 60.0]]
S = [[90.0, None], [50.0, 80.0]]
RUNS = [
    a_run("er", 0, r=R),
    a_run("er", 1, r=S),
    a_run("joint", 0, r=[[None, None], [85.0, 95.0]], memory=None),
]
BUILDERS = (curves, per_task, matrices, cost)


def drawn(figure, *keys):
    return [tuple(row[key] for key in ("label", *keys)) for row in figure.rows]


def test_curves_are_means_over_the_seeds_with_a_band_of_one_deviation():
    figure = curves(RUNS)
    assert drawn(figure, "task", "acc", "seeds") == [
        ("joint", 2, 90.0, 1),
        ("er", 1, 85.0, 2),
        ("er", 2, 57.5, 2),  # (50 + 65) / 2
    ]
    last = figure.rows[-1]
    assert last["sd"] == pytest.approx(112.5**0.5)
    assert (last["low"], last["high"]) == (57.5 - last["sd"], 57.5 + last["sd"])
    assert figure.rows[0]["sd"] is None


def test_tasks_in_the_end_and_whole_matrices():
    assert drawn(per_task(RUNS), "task", "acc") == [
        *(("joint", 1, 85.0), ("joint", 2, 95.0)),
        *(("er", 1, 45.0), ("er", 2, 70.0)),
    ]
    assert drawn(matrices(RUNS), "after", "task", "acc") == [
        *(("joint", 2, 1, 85.0), ("joint", 2, 2, 95.0)),
        *(("er", 1, 1, 85.0), ("er", 2, 1, 45.0), ("er", 2, 2, 70.0)),
    ]


def test_cost_has_passes_and_speed_beside_accuracy():
    fast = a_run("er", 1, r=S, images_per_second=3000.0)
    (row,) = cost([RUNS[0], fast]).rows
    assert (row["acc"], row["forwards_per_step"], row["images_per_second"]) == (57.5, 2.0, 2000.0)


@pytest.mark.parametrize("build", BUILDERS)
def test_two_protocols_are_two_series_and_two_streams_two_figures(build):
    rows = build([a_run(final=40.0, epochs=1), a_run(final=60.0, epochs=2)]).rows
    assert {row["label"] for row in rows} == {"er (epochs 1)", "er (epochs 2)"}
    assert {row["seeds"] for row in rows} == {1}
    with pytest.raises(UserError, match="one stream"):
        build([a_run(), a_run(stream="seq-digits")])


@pytest.mark.parametrize("build", BUILDERS)
def test_cut_down_data_is_in_the_title(build):
    assert build([a_run(cut_down=True)]).title.endswith("(cut-down data)")
    assert "cut-down" not in build([a_run()]).title


@pytest.mark.parametrize("build", [curves, per_task, cost])
def test_a_legend_picks_methods_out_and_a_parameter_hides_them(build):
    whole = spec(build(RUNS))
    params = {param["name"]: param for param in whole["params"]}
    assert params["hidden"]["value"] == []
    assert (params["pick"]["bind"], params["pick"]["select"]["fields"]) == ("legend", ["label"])


def test_a_dozen_methods_are_told_apart_without_colour():
    whole = spec(curves([a_run(f"m{i}") for i in range(13)]))
    scales = [
        layer["encoding"][channel]["scale"]["range"]
        for channel in ("color", "strokeDash", "shape")
        for layer in whole["layer"]
        if channel in layer["encoding"]
    ]
    looks = [str(look) for look in zip(scales[0], scales[-2], scales[-1], strict=True)]
    assert len(set(looks)) == 13
    monochrome = itertools.pairwise(zip(scales[-2], scales[-1], strict=True))
    assert all(one != other for one, other in monochrome)


def a_judgement():
    study = load_study("main")
    knobs = study.values("lite", "seq-cifar10")
    found = [
        a_run(method, seed, final + seed, cut_down=True, **knobs)
        for method, final in (("er", 50.0), ("er-bnt", 60.0))
        for seed in (0, 1)
    ]
    return verdicts(study, "lite", found), found


def test_claims_show_our_interval_and_the_papers_difference():
    rows, found = a_judgement()
    ours, paper, *_ = verdict_chart(rows, found).rows
    assert ours["claim"] == "1. er-bnt − er, ACC, Seq-CIFAR-10"
    assert (ours["difference"], ours["shown"], ours["seeds"]) == (10.0, "holds", 2)
    assert paper["difference"] == pytest.approx(72.08 - 61.62)
    assert (paper["shown"], paper["low"]) == ("the paper", None)
    assert "cut-down data" in str(spec(verdict_chart(rows, found)))
    assert verdict_figure(verdicts(load_study("main"), "lite", []), []) is None
    assert verdict_figure(None, []) is None


def test_figures_reach_the_disk_whole(tmp_path):
    rows, found = a_judgement()
    runs = [*RUNS, a_run(HOSTILE)]
    figures = [*stream_figures(runs)["seq-cifar10"], verdict_figure(rows, found)]
    for figure in figures:
        paths = {path.suffix: path for path in save(figure, tmp_path / "figures")}
        assert set(paths) == {".svg", ".pdf", ".png", ".csv"}
        assert paths[".pdf"].read_bytes().startswith(b"%PDF-")
        assert paths[".png"].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert ElementTree.parse(paths[".svg"]).getroot().tag.endswith("svg")
        assert all(path.stat().st_size > 2000 for kind, path in paths.items() if kind != ".csv")
        table = list(csv.DictReader(io.StringIO(paths[".csv"].read_text())))
        assert len(table) == len(figure.rows)
        assert list(table[0]) == list(figure.rows[0])
    svg = (tmp_path / "figures" / "curves-seq-cifar10.svg").read_text()
    assert "<b>" not in svg
    assert HOSTILE in "".join(ElementTree.fromstring(svg).itertext())


def test_names_of_streams_are_safe_and_distinct_file_names():
    figures = stream_figures([a_run(stream="../a b"), a_run(stream="a/b")])
    names = [figure.name for found in figures.values() for figure in found]
    assert len(set(names)) == 8
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in names)
