"""What a report opens with."""

import re

from bntricks.paper import load_study
from bntricks.report.build import build
from bntricks.report.page.page import report_html
from helpers.records import a_run, runs
from helpers.studies import study_runs

PILOT = load_study("pilot")


def test_a_study_says_what_was_asked_at_which_scale_and_how_its_claims_fared():
    overview = build(study_runs("pilot", seeds=6), PILOT, "lite").overview
    assert overview.asked.startswith("Table 1, Figure 3 of the paper: Pilot experiments")
    assert overview.scale.startswith("6 seeds a row, at lite scale. Unlike the paper's protocol: ")
    assert "epochs 40 (paper: 50)" in overview.scale
    assert overview.claims.startswith("Of 12 claims, ")
    assert overview.missing == ()


def test_what_is_missing_is_named():
    trained = [run for run in study_runs("pilot", seeds=6) if run.method != "er-cur+prev"]
    short = [run for run in trained if run.method != "er" or run.seed < 2]
    assert build(short, PILOT, "lite").overview.missing == (
        "Seq-CIFAR-10: no runs of ER-Cur+Prev.",
        "Seq-CIFAR-10: 2 of 6 seeds of ER.",
    )
    few = build(study_runs("pilot", seeds=3), PILOT, "lite")
    assert few.overview.missing == ("Seq-CIFAR-10: 3 of 6 seeds of every row.",)
    main = build(study_runs("main", streams=["seq-cifar10"]), load_study("main"), "lite")
    assert "Seq-CIFAR-100: no runs." in main.overview.missing


def test_a_study_that_was_moved_to_another_stream_has_no_rows_of_claims():
    moved = [a_run(method, stream="seq-digits") for method in PILOT.methods]
    report = build(moved, PILOT, "smoke")
    assert report.verdict_table is None
    assert report.verdicts == ()
    (line,) = report.overview.missing
    assert line.startswith("Verdicts: what is claimed is about Seq-CIFAR-10, and these runs are on")


def test_a_study_of_what_the_paper_leaves_open_is_headed_by_that():
    control = build(study_runs("control"), load_study("control"), "lite")
    assert control.verdict_table.title == "What the paper leaves open"
    assert build(study_runs("pilot"), PILOT, "lite").verdict_table.title == "The paper's claims"


def test_the_page_has_a_mark_for_each_claim():
    html = report_html(build(study_runs("pilot"), PILOT, "lite"))
    linked = re.findall(r'<a href="#(verdict-table-\d+)" title=', html)
    assert sorted(linked) == sorted(re.findall(r'<tr id="(verdict-table-\d+)"', html))
    assert len(linked) == len(PILOT.claims)
    assert 'class="suggested"' in html or 'class="doubtful"' in html


def test_runs_of_the_papers_protocol_say_so():
    assert build(runs("er", [50.0, 51.0])).overview.scale == (
        "2 seeds a row, under the paper's protocol."
    )
