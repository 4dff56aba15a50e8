"""Two sets of runs beside each other, worked out by hand."""

import pytest

from bntricks.errors import UserError
from bntricks.report.groups import group
from bntricks.report.pairs import compare, labelled, write_page
from bntricks.report.statistics import estimate
from bntricks.report.tables.table import to_json
from helpers.records import HOSTILE, a_run, runs, written


def rows(table):
    return to_json(table)["rows"]


def test_runs_are_paired_by_seed_and_a_minus_b(tmp_path):
    a = written(tmp_path / "a", *runs("er-bnt", [60.0, 62.0, 61.0, 70.0]))
    b = written(tmp_path / "b", *runs("er", [50.0, 51.0, 54.0], lr=0.1))
    [pair] = compare(a, b, ["acc"])
    [row] = rows(pair.differences)
    expected = estimate([10.0, 11.0, 7.0])
    assert row["A − B"] == pytest.approx(expected.mean)
    assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high))
    assert (row["Seeds"], row["A"]) == (3.0, 63.25)
    assert [(r[""], r["A"], r["B"]) for r in rows(pair.configuration)] == [
        ("method", "er-bnt", "er"),
        ("lr", "0.03", "0.1"),
    ]
    assert [(r["After task"], r["B"]) for r in rows(pair.curve)] == [
        (1.0, 90.0),
        (2.0, pytest.approx(155 / 3)),
    ]
    assert {row["label"] for row in pair.figures[0].rows} == {"A: ER-BNT", "B: ER"}


def test_a_small_p_is_not_zero(tmp_path):
    a = written(tmp_path / "a", *runs("er-bnt", [60.0, 62.01, 61.0]))
    b = written(tmp_path / "b", *runs("er", [50.0, 52.0, 51.0]))
    [pair] = compare(a, b, ["acc"])
    [row] = pair.differences.rows
    assert row[pair.differences.columns.index("p")].text == "< 0.001"


def test_folders_of_several_methods_are_paired_by_method(tmp_path):
    a = written(tmp_path / "a", *runs("er", [50.0, 51.0]), *runs("gem", [40.0]))
    b = written(tmp_path / "b", *runs("er", [40.0, 42.0], lr=0.1), *runs("sgd", [10.0], lr=0.1))
    [pair] = compare(a, b)
    assert pair.title == "ER on Seq-CIFAR-10"
    with pytest.raises(UserError, match="no method and stream in common"):
        compare(a, written(tmp_path / "c", a_run("fdr"), a_run("gss")))
    mixed = written(tmp_path / "d", a_run("er"), a_run("er", lr=0.1), a_run("gem"))
    with pytest.raises(UserError, match="B holds several protocols of one method"):
        compare(a, mixed)


def test_one_seed_and_no_common_seed_are_said(tmp_path):
    one, other = (written(tmp_path / str(seed), a_run("er", seed)) for seed in (0, 1))
    [pair] = compare(one, other)
    assert rows(pair.differences)[0]["A − B"] is None
    assert "no common seed" in pair.differences.notes[-1]
    [same] = compare(one, one)
    assert "Nothing: the same" in same.configuration.notes[0]
    assert "One seed has no interval" in same.differences.notes[-1]


def test_the_page_shows_both_sides_and_escapes_their_names(tmp_path):
    one, other = (
        written(tmp_path / side, a_run("er", stream=HOSTILE, lr=lr))
        for side, lr in (("a", 0.1), ("b", 0.2))
    )
    write_page(compare(one, other), tmp_path / "page.html", "bnt compare a b")
    text = (tmp_path / "page.html").read_text()
    assert "bnt compare a b" in text
    assert "pair-1-curves" in text
    assert HOSTILE not in text


def test_two_sets_of_one_method_look_different():
    a, b = (group(runs("er", [50.0], lr=lr))[0] for lr in (0.1, 0.2))
    first, second = labelled((a, b))
    assert first.look != second.look
