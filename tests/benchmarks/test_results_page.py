"""docs/results.md and the pages behind it are what their script writes, and what that writes is
what the records say."""

import csv
import io
import re

import pytest

from bntricks.paper import load_study
from bntricks.report.records import load_records
from helpers import records
from helpers.pages import DOCS
from readme import part
from results_page.evidence import STUDIES, findings, gather
from results_page.fill import against_layers, figures, known, layers, listed, named
from results_page.forest import PAPER, forest
from results_page.lengths import lengths
from results_page.studies import COLUMNS, study_page
from write_results import overall, pages, quoted, share_figure, written_for_results

STREAM = "seq-cifar10"
GAIN = "ER-BNT has a higher ACC than ER on Seq-CIFAR-10"
MOST_WORDS = 2_500


def matrix(final):
    """Five tasks, just learned at 90, all of them at `final` in the end."""
    early = [[90.0 if j == i else 50.0 if j < i else None for j in range(5)] for i in range(4)]
    return [*early, [final] * 5]


def runs(method, finals, scale="medium", **knobs):
    """A run for each final accuracy, with seeds from 0, at the protocol of a scale."""
    values = {**load_study("pilot").values(scale, STREAM), **knobs}
    lite = {"cut_down": True, "fingerprint": "c" * 16} if scale == "lite" else {}
    return [
        records.a_run(method, seed, r=matrix(final), **{**lite, **values})
        for seed, final in enumerate(finals)
    ]


def gain(amount, scale="medium", seeds=3, **knobs):
    """ER, and ER-BNT with so many points more."""
    er = [50.0 + seed for seed in range(seeds)]
    better = [final + amount + 0.1 * seed for seed, final in enumerate(er)]
    return [*runs("er", er, scale), *runs("er-bnt", better, scale, **knobs)]


def finding(text, trained):
    (own,) = {f.claim.text: f for f in findings(gather(trained)) if f.claim.text == text}.values()
    return own


@pytest.fixture(scope="module")
def committed():
    return pages(load_records([DOCS / "results"]))


def test_the_pages_are_what_their_script_writes(committed):
    texts, drawn = committed
    for name, text in texts.items():
        written = (DOCS / name).read_text(encoding="utf-8")
        assert text == written, f"{name}: run `python benchmarks/write_results.py`"
    own = findings(gather(load_records([DOCS / "results"])))
    assert quoted(own) == part("results"), "run `python benchmarks/write_results.py`"
    files = {path.relative_to(DOCS).as_posix() for path in written_for_results(DOCS)}
    assert files == {*texts, *(f"figures/{name}.svg" for name in drawn)} - {"results.md"}


def test_the_page_takes_two_minutes_and_every_verdict_s_numbers_are_behind_it(committed):
    texts, _ = committed
    assert len(texts["results.md"].split()) <= MOST_WORDS
    rows = list(csv.DictReader(io.StringIO(texts["evidence/claims.csv"])))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == sum(len(load_study(name).claims) for name in STUDIES)
    assert all((row["scale"] == "") == (row["verdict"] == "not run") for row in rows)


def test_no_number_stands_in_the_words_that_are_filled():
    words = (DOCS.parent / "benchmarks" / "results_page" / "page.md").read_text(encoding="utf-8")
    without_names = re.sub(r"\]\([^)]*\)|\{[^}]*\}|less than 2\.5 points", "", words)
    assert not re.search(r"\d", without_names)


def test_the_largest_scale_with_a_verdict_decides():
    trained = [*gain(5.0, "lite"), *gain(-5.0, "medium")]
    own = finding(GAIN, trained)
    assert own.verdict == "doubtful"
    assert [(scale, j.verdict) for scale, j in own.judgements] == [
        ("medium", "doubtful"),
        ("lite", "suggested"),
    ]
    scales = [each.scale for each in gather(trained) if each.study.name == "ablation"]
    assert scales == ["medium", "lite"]


def test_a_smaller_scale_with_more_seeds_confirms_but_does_not_overrule():
    confirmed = gain(5.0, "lite", seeds=6)
    assert finding(GAIN, [*confirmed, *gain(5.0, "medium")]).decisive[0] == "lite"
    assert finding(GAIN, [*confirmed, *gain(5.0, "medium")]).verdict == "holds"
    assert finding(GAIN, [*confirmed, *gain(-5.0, "medium")]).verdict == "doubtful"


def test_two_seeds_do_not_decide():
    trained = [*gain(5.0, "lite"), *gain(-5.0, "medium", seeds=2)]
    assert finding(GAIN, trained).verdict == "suggested"
    assert [e.scale for e in gather(trained) if e.study.name == "ablation"] == ["lite", "medium"]
    assert finding(GAIN, gain(5.0, seeds=2)).verdict == "too few seeds"
    assert finding(GAIN, []).verdict == "not run"


def test_medium_scale_is_of_the_whole_data():
    cut_down = {"cut_down": True, "fingerprint": "c" * 16}
    trained = [*runs("er", [50.0] * 3, **cut_down), *runs("er-bnt", [60.0] * 3, **cut_down)]
    assert gather(trained) == []


def test_a_claim_is_shown_with_every_interval_and_the_paper_s_number():
    text = figures(finding(GAIN, [*gain(5.0, "lite", seeds=6), *gain(9.0)]))
    assert "+9.1 points (8.9 to 9.3; 3 seeds, `medium`)" in text
    assert "; 6 seeds, `lite`)" in text
    assert text.endswith("in the paper +10.5")
    assert "too few seeds" in figures(finding(GAIN, gain(5.0, seeds=2)))
    assert "not run" in figures(finding(GAIN, []))


def test_the_forest_has_our_interval_at_each_scale_and_the_paper_s():
    own = findings(gather([*gain(5.0, "lite", seeds=6), *gain(9.0)]))
    figure = forest("f", "F", "", named(own, "forest"))
    rows = [row for row in figure.rows if row["label"] == "ER-BNT over ER, ACC"]
    assert [(row["source"], row["shown"]) for row in rows] == [
        ("medium", "suggested"),
        ("lite", "holds"),
        (PAPER, PAPER),
    ]
    assert rows[2]["low"] < rows[2]["difference"] < rows[2]["high"]
    assert forest("f", "F", "", named(findings([]), "forest")) is None


def test_every_named_claim_and_every_note_is_of_a_claim_that_exists():
    texts = {claim.text for name in STUDIES for claim in load_study(name).claims}
    assert {text for note in known()["note"] for text in note["claims"]} <= texts
    assert 10 <= len(named(findings([]), "forest")) <= 14
    assert "ER-ACE" in " ".join(named(findings([]), "readme"))


def test_what_does_not_reproduce_is_listed_with_its_reason_or_without_any():
    trained = [
        *gain(-5.0),
        *runs("er-cur+buf", [40.0, 41.0, 42.1]),
        *runs("er-balance-batch", [50.5, 52.0, 53.0]),
    ]
    own = [f for f in findings(gather(trained)) if f.study.name in ("pilot", "ablation")]
    lines = listed(own, ("doubtful", "does not hold"))
    [buffered] = [line for line in lines if "ER-Cur+Buf has a higher ACC and BWT than ER:" in line]
    assert "evidence/pilot.md#training-length" in buffered
    [tricks] = [line for line in lines if "- ER-BNT has a higher ACC and BWT than ER:" in line]
    assert "not known" in tricks
    assert len(listed([], ("doubtful",))) == 1


def test_a_study_has_a_page_with_its_verdicts_of_each_scale_and_what_is_known():
    trained = [*gain(5.0, "lite"), *gain(-5.0), *runs("er-cur+buf", [40.0, 41.0, 42.1])]
    own = [each for each in gather(trained) if each.study.name == "pilot"]
    text, drawn = study_page(own)
    assert text.startswith("# Pilot experiments")
    assert "| doubtful | ER-Cur+Buf has a higher ACC than ER on Seq-CIFAR-10 |" in text
    assert "](../evidence/pilot.md#training-length)" in text
    assert {f"pilot-{kind}" for kind in ("differences", f"curves-{STREAM}")} <= drawn.keys()
    assert all(f"](../figures/{name}.svg)" in text for name in drawn)


def test_a_layer_at_two_rates_counts_by_the_one_that_bn_tricks_fares_worse_against():
    trained = [
        *gain(10.0, "lite"),
        *runs("er", [40.0, 41.0, 42.5], "lite", norm="gn"),
        *runs("er", [70.0, 71.0, 72.5], "lite", norm="gn", lr=0.1),
        *runs("er", [40.0, 41.0, 42.5], "lite", norm="cn"),
    ]
    own = findings(gather(trained))
    assert "seems ahead of CN; seems behind GN." in layers(own)
    assert len(against_layers(own)) == 3
    assert f"layers-{STREAM}" in overall(trained, own)


def test_only_a_confirmed_difference_puts_one_ahead():
    better = [60.0, 61.0, 62.5, 60.5, 61.5, 60.0]
    worse = [value - 20 - 0.1 * seed for seed, value in enumerate(better)]
    for seeds, words in ((5, ": seems ahead of GN"), (6, ": ahead of GN")):
        trained = [
            *runs("er-bnt", better[:seeds], "lite"),
            *runs("er", worse[:seeds], "lite", norm="gn"),
        ]
        assert words in layers(findings(gather(trained)))


def test_a_single_pass_says_nothing_about_many_epochs():
    trained = [
        *runs("der++", [40.0, 41.0, 42.5], epochs=1),
        *runs("der++-bnt", [50.0, 51.0, 52.0], epochs=1),
    ]
    judged = {f.study.name for f in findings(gather(trained)) if f.decisive}
    assert judged == {"norms-online"}


def test_effects_by_length_are_of_one_scale_and_in_order():
    def steps(count):
        return {"steps": 5 * count, "epochs": count // 313}

    trained = []
    for count in (15_650, 6_260):
        for method, final in (("er", 50.0), ("er-cur+buf", 48.0), ("er-bnt", 50.0 + count / 1000)):
            trained += runs(method, [final], **steps(count))
    _, table, _ = lengths([*trained, *runs("er", [99.0], lr=0.06, **steps(6_260))])
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith(("| 6", "| 15"))]
    assert [row[0] for row in rows] == ["| 6260", "| 15650"]
    assert [(row[3], row[11]) for row in rows] == [("50.0", "6.3"), ("50.0", "15.7")]


def test_acc_over_the_share_of_phi_is_drawn_of_probed_runs_at_the_scale():
    by_share = [
        {"share": share, "old": acc, "newest": acc, "acc": acc}
        for share, acc in ((0.0, 40.0), (0.6, 45.0), (1.0, 42.0))
    ]
    phi = {"acc": 44.0, "oracle_acc": 44.0, "task_acc": 44.0, "oracle_gain": 0.0}
    values = load_study("pilot").values("medium", STREAM)
    run = records.a_run("er", r=matrix(44.0), phi={**phi, "by_share": by_share}, **values)
    single_pass = records.a_run("er", r=matrix(44.0), phi=run.phi, **{**values, "epochs": 1})
    assert [row["acc"] for row in share_figure([run, single_pass]).rows] == [40.0, 45.0, 42.0]
    assert share_figure([]) is share_figure([single_pass]) is None


def test_a_run_with_the_streams_own_memory_is_one_of_a_study_that_does_not_name_it():
    made = runs("der++", [50.0] * 3, epochs=1, memory=500)
    assert [e.study.name for e in gather(made)] == ["norms-online"]
