"""Results in the form of the paper's tables."""

import pytest

from bntricks.methods import find
from bntricks.paper import STREAMS, load_reported, load_study, study_names
from bntricks.report.groups import group
from bntricks.report.tables.paper_form import paper_form
from bntricks.report.tables.table import to_csv, to_json, to_markdown
from helpers.records import a_run, runs
from helpers.studies import study_runs

LWF = {"alpha": 3.0, "decay": 0.0005}


def rows(table):
    return {row[0].text: dict(zip(table.names, row, strict=True)) for row in table.rows}


@pytest.fixture(scope="module")
def table_three():
    return paper_form(group(study_runs("main", "paper")), load_study("main"))


def test_table_three_has_methods_down_and_streams_across(table_three):
    titles = load_reported().titles
    assert [row[0].text for row in table_three.rows] == [
        titles[method] for method in load_study("main").methods
    ]
    assert [head for head, _ in table_three.spans()] == [
        *("", "Seq-CIFAR-10", "Seq-CIFAR-100", "Seq-Tiny-ImageNet")
    ]
    assert table_three.columns[1:5] == ("ACC", "paper ACC", "BWT", "paper BWT")


def test_what_the_paper_skipped_and_what_joint_training_lacks_is_a_dash(table_three):
    by_method = rows(table_three)
    gem = by_method["GEM"]
    assert gem["Seq-Tiny-ImageNet ACC"].text == gem["Seq-Tiny-ImageNet paper BWT"].text == "–"
    assert by_method["Joint Training"]["Seq-CIFAR-10 BWT"].text == "–"
    assert table_three.numeric(table_three.names.index("Seq-Tiny-ImageNet ACC"))
    assert to_json(table_three)["rows"][3]["Seq-Tiny-ImageNet ACC"] is None
    assert "–" not in to_csv(table_three)


def test_the_best_of_all_is_bold_in_each_column_and_nothing_else(table_three):
    bold = {
        (name, column)
        for name, row in rows(table_three).items()
        for column, cell in row.items()
        if cell.bold
    }
    assert {name for name, _ in bold} == {"DER++-BNT"}
    assert len(bold) == 3 * 2
    assert not any("paper" in column for _, column in bold)


def test_the_bounds_come_first_and_rules_part_the_families(table_three):
    names = [row[0].text for row in table_three.rows]
    assert [names[rule] for rule in sorted(table_three.rules)] == ["LwF", "ER", "DER++", "iCaRL"]
    assert "Joint Training and SGD are bounds, not rivals." in table_three.notes


def test_a_pair_whose_runs_do_not_compare_has_no_better_one():
    table = paper_form(group([*runs("er", [50.0]), *runs("er-bnt", [60.0], fingerprint="x" * 16)]))
    assert not any(cell.bold for row in table.rows for cell in row)


def test_the_paper_stands_beside_ours_only_under_its_own_protocol():
    (own,) = paper_form(group([a_run()])).rows
    assert "61.62 ± 1.59" in [cell.text for cell in own]
    for other in ({"memory": 200}, {"lr": 0.06}, {"norm": "gn"}, {"cut_down": True}):
        table = paper_form(group([a_run(**other)]))
        assert table.columns == ("Method", "ACC", "BWT")
        assert any(note.startswith("Without the paper's numbers") for note in table.notes)


def test_the_defaults_of_a_method_are_no_departure_and_other_values_are():
    usual, other = (runs("lwf", [50.0], memory=None, hyper=h) for h in (LWF, LWF | {"alpha": 9.0}))
    assert "paper ACC" in paper_form(group(usual)).columns
    (note,) = [n for n in paper_form(group(other)).notes if n.startswith("Without the paper's")]
    assert note.endswith("differs: alpha 9.0 (paper: 3.0).")


def test_values_of_one_option_are_named_together():
    table = paper_form(group([a_run(norm=norm) for norm in ("gn", "ln", "cn")]))
    assert table.notes[-1].endswith("differs: norm cn, gn or ln (paper: bn).")


def test_table_two_has_the_batches_in_the_papers_order():
    study = load_study("ablation")
    table = paper_form(group(study_runs("ablation")), study)
    assert table.columns[:3] == ("Method", "EMA", "Model parameters")
    assert [row[0].text for row in table.rows] == [
        load_reported().titles[method] for method in study.methods
    ]
    assert [cell.text for cell in table.rows[1][1:3]] == ["B_b", "B_t ∪ B_M, B_M"]
    assert sorted(table.rules) == [5]


def test_table_four_has_sizes_of_the_memory_across():
    table = paper_form(group(study_runs("buffers", "medium")), load_study("buffers"))
    assert [head for head, _ in table.spans()][1:] == [
        f"|M| = {size}" for size in (200, 500, 1000, 5000)
    ]
    assert len(table.rows) == 6
    assert "| ER-BNT |" in to_markdown(table)


def test_what_needs_no_memory_stands_beside_every_size_of_it():
    trained = [*runs("sgd", [9.0], memory=None), *runs("er", [30.0], memory=200)]
    table = paper_form(group([*trained, *runs("er", [40.0], memory=500)]))
    sgd = rows(table)["SGD"]
    assert [sgd[f"|M| = {size} ACC"].text for size in (200, 500)] == ["9.00", "9.00"]


def test_a_method_that_was_run_with_a_size_of_its_own_is_not_lost():
    trained = [run for size in (200, 500) for run in runs("er", [30.0], memory=size)]
    table = paper_form(group([*trained, *runs("gem", [20.0], memory=300)]))
    assert rows(table)["GEM"]["|M| = 300 ACC"].text == "20.00"


def test_a_positive_bwt_is_not_the_best():
    odd = [a_run("er-bnt-no-simulator", r=[[10.0, None], [40.0, 20.0]])]
    table = paper_form(group([*runs("er", [50.0]), *runs("er-bnt", [60.0]), *odd]))
    by_method = rows(table)
    assert by_method["ER-BNT"]["Seq-CIFAR-10 BWT"].bold
    assert not by_method["ER-BNT-No-Simulator"]["Seq-CIFAR-10 BWT"].bold
    assert any(note.startswith("A positive BWT") for note in table.notes)


def test_titles_and_batches_of_tables_are_those_of_the_recipes():
    reported = load_reported()
    for method, title in reported.titles.items():
        assert find(method).title == title
    for stream in STREAMS:
        for method in {entry.method for entry in reported.entries()}:
            assert reported.hyper_of(method, stream) == find(method).hyper(stream)
    of_studies = {method for name in study_names() for method in load_study(name).methods}
    assert of_studies <= reported.titles.keys()
    for method, batches in reported.batches.items():
        columns = find(method).factory().columns()
        assert (columns["ema"], columns["parameters"]) == batches
