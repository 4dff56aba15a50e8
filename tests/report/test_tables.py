"""Tables say the right numbers in every format, and no name can break out of its cell."""

import csv
import io

import pytest
from rich.console import Console

from bntricks.paper import load_reported, load_study
from bntricks.report.groups import group
from bntricks.report.page.html import table_html
from bntricks.report.tables.latex import to_latex
from bntricks.report.tables.results import results_table, verdict_table
from bntricks.report.tables.table import (
    Cell,
    Table,
    fitted,
    terminal_width,
    to_csv,
    to_markdown,
    to_rich,
)
from bntricks.report.verdicts import verdicts
from helpers.records import HOSTILE, runs


def results(*records):
    return results_table(group(records))


def cells(table):
    """The rows as texts by column."""
    return [dict(zip(table.columns, (c.text for c in row), strict=True)) for row in table.rows]


def shown(table, width=250):
    out = io.StringIO()
    Console(file=out, width=width).print(to_rich(table))
    return out.getvalue()


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_a_row_is_mean_and_deviation_with_the_papers_beside():
    er, bnt = cells(results(*runs("er", [50, 53, 59]), *runs("er-bnt", [70, 71])))
    assert (er["ACC"], er["BWT"], er["Seeds"]) == ("54.00 ± 4.58", "-36.00 ± 4.58", "3")
    assert (er["Paper ACC"], er["Paper BWT"]) == ("61.62 ± 1.59", "-43.82 ± 2.02")
    assert (bnt["ACC"], bnt["Paper ACC"]) == ("70.50 ± 0.71", "72.08 ± 0.55")
    assert (er["Stream"], er["Forwards/step"], er["Images/s"]) == ("Seq-CIFAR-10", "2.00", "1000")


def test_one_seed_has_no_deviation():
    (row,) = cells(results(*runs("er", [50])))
    assert row["ACC"] == "50.00"


def test_the_best_is_bold_everywhere_and_only_the_best():
    table = results(*runs("er", [50, 52]), *runs("er-bnt", [60, 62]), *runs("gem", [20]))
    assert to_markdown(table).count("**61.00 ± 1.41**") == 1
    assert to_markdown(table).count("**") == 4  # the title's and the best's
    assert to_latex(table).count(r"$\mathbf{61.00{\pm}1.41}$") == 1
    assert to_latex(table).count("mathbf") == 1
    bold = [cell.text for row in table.rows for cell in row if cell.bold]
    assert bold == ["61.00 ± 1.41"]


def test_cut_down_data_is_labelled_in_its_row_in_every_format():
    table = results(*runs("er", [50], cut_down=True), *runs("gem", [50], fingerprint="g"))
    gem, er = cells(table)
    assert er["Data"] == "cut-down (200 of 50000)"
    assert gem["Data"] == "full"
    for text in (to_markdown(table), to_csv(table), to_latex(table), shown(table)):
        assert text.count("cut-down (200 of 50000)") == 1
    assert any("not comparable" in note for note in table.notes)


def test_protocols_are_not_averaged_and_the_table_says_so():
    table = results(*runs("er", [50], epochs=2), *runs("er", [60], epochs=5))
    assert [(r["Method"], r["Epochs"], r["ACC"]) for r in cells(table)] == [
        ("ER", "2", "50.00"),
        ("ER", "5", "60.00"),
    ]
    assert "Several protocols on Seq-CIFAR-10" in " ".join(table.notes)
    assert "epochs 2 or 5 (paper: 50)" in " ".join(table.notes)
    assert "Paper ACC" not in table.columns
    assert not any(cell.bold for row in table.rows for cell in row)
    assert "Several" not in " ".join(results(*runs("er", [50, 51])).notes)


def test_the_papers_value_is_that_of_the_same_memory():
    little = runs("er", [30], stream="seq-cifar100", memory=200)
    (row,) = cells(results(*little))
    assert row["Paper ACC"] == "13.94 ± 0.58"
    assert "Paper ACC" not in cells(results(*runs("er", [30], memory=77)))[0]
    sizes = (200, 500, 1000, 5000)
    sized = [r for m in sizes for r in runs("er", [30], stream="seq-cifar100", memory=m)]
    paper = [row["Paper ACC"] for row in cells(results(*sized))]
    reported = [load_reported().find("er", "seq-cifar100", m) for m in sizes]
    assert paper == [f"{e.acc.mean:.2f} ± {e.acc.sd:.2f}" for e in reported]


def test_a_wide_table_is_shown_in_parts_that_fit_a_terminal():
    heads = ("", *(name for name in "abc" for _ in range(2)))
    row = (Cell("er"), *(Cell("50.00 ± 1.00", 50.0, 1.0) for _ in range(6)))
    table = Table("T", ("Method", *["ACC", "BWT"] * 3), (row,), ("A remark.",), heads)
    parts = fitted(table, 60, terminal_width)
    assert [part.heads[1:] for part in parts] == [("a", "a"), ("b", "b"), ("c", "c")]
    assert [len(part.notes) for part in parts] == [0, 0, 1]
    assert max(len(line) for part in parts for line in shown(part, 60).splitlines()) <= 60
    assert fitted(table, 200, terminal_width) == [table]


def test_of_a_table_without_rows_only_title_and_notes_are_shown():
    table = Table("What differs", ("", "A", "B"), (), ("Nothing.",))
    assert shown(table, 60).split("\n") == ["What differs", "Nothing.", "", ""]
    assert table_html(table, "t") == '<p class="note">Nothing.</p>'


def test_csv_holds_whole_numbers_in_columns_of_their_own():
    (row,) = read_csv(to_csv(results(*runs("er", [50, 53, 59]))))
    assert float(row["ACC"]) == 54.0
    assert float(row["ACC sd"]) == pytest.approx(21**0.5, abs=1e-12)
    assert float(row["Paper ACC sd"]) == 1.59


def test_hostile_names_stay_names():
    table = results(*runs(HOSTILE, [50]))
    assert read_csv(to_csv(table))[0]["Method"] == HOSTILE
    assert HOSTILE in shown(table)
    assert r"\</script\>\<b\>&amp;\_%\$\[red\]" in to_markdown(table)
    expected = r"\textless{}/script\textgreater{}\textless{}b\textgreater{}\&\_\%\${[}red{]}"
    assert expected in to_latex(table)


def a_table(*texts):
    return Table("t", ("a",), tuple((Cell(text),) for text in texts))


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-x", "@SUM(A1)", "＝1", '=HYPERLINK("u")'])
def test_a_cell_of_csv_never_becomes_a_formula(text):
    ((_,), (cell,)) = csv.reader(io.StringIO(to_csv(a_table(text))))
    assert cell == "'" + text


def test_what_does_not_print_is_escaped_in_csv():
    ((_,), (cell,)) = csv.reader(io.StringIO(to_csv(a_table("\t=1\x1b[31m\r\x9b2J"))))
    assert cell == r"\t=1\x1b[31m\r\x9b2J"


@pytest.mark.parametrize("text", ["-1.5", "+3", "er-bnt", "1e-3"])
def test_numbers_and_plain_names_are_left_alone_in_csv(text):
    ((_,), (cell,)) = csv.reader(io.StringIO(to_csv(a_table(text))))
    assert cell == text


def test_pipes_and_line_ends_do_not_tear_a_markdown_row():
    (row,) = [line for line in to_markdown(a_table("a|b\nc\r\n| d")).splitlines() if "c" in line]
    assert row == r"| a\|b c  \| d |"


def test_latex_rows_cannot_be_read_as_options_or_comments():
    text = to_latex(a_table("[red]", "*", r"a\b", "50% {x} ~^#", "a--b"))
    assert "\n{[}red{]} \\\\" in text
    assert "\n{*} \\\\" in text
    assert r"a\textbackslash{}b" in text
    assert r"50\% \{x\} \textasciitilde{}\textasciicircum{}\#" in text
    assert "a-{}-b" in text


def test_latex_is_a_booktabs_table_with_as_many_columns_as_it_declares():
    table = results(*runs("er", [50, 52]), *runs("joint", [80], memory=None))
    lines = to_latex(table).splitlines()
    (declared,) = [
        x.split("}{")[1].replace("@{", "").replace("}", "")
        for x in lines
        if r"\begin{tabular}" in x
    ]
    rows = [line for line in lines if line.endswith(r"\\")]
    assert len(rows) == 3
    assert {line.count("&") + 1 for line in rows} == {len(declared)} == {len(table.columns)}
    assert [lines.count(x) for x in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]


def test_claims_become_rows_with_both_differences():
    study = load_study("main")
    records = []
    for method, finals in {"er": [50.0, 51.0, 52.0], "er-bnt": [60.0, 61.5, 62.0]}.items():
        knobs = study.values("lite", "seq-cifar10")
        records += runs(method, finals, cut_down=True, **knobs)
    judgements = verdicts(study, "lite", group(records))
    table = verdict_table(judgements, "(cut-down data)")
    by_sides = [r for r in cells(table) if r["Compared"] == "ER-BNT − ER" and r["Metric"] == "ACC"]
    row = next(r for r in by_sides if r["Verdict"] == "suggested")
    assert row["Ours (cut-down data)"] == "10.17"
    assert row["Paper"] == "10.46"
    assert row["95% interval"].startswith("9.45 to 10.88")
    assert {r["Verdict"] for r in cells(table)} >= {"suggested", "not run"}
    assert "Ours" in verdict_table(judgements).columns
