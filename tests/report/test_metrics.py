"""Which numbers a table shows, and all of them in one."""

import csv
import io
import json
import sys
from types import SimpleNamespace

import pytest

from bntricks.errors import UserError
from bntricks.report.build import build
from bntricks.report.groups import group
from bntricks.report.records import COLUMNS, Records, load_records
from bntricks.report.tables.results import results_table, verdict_table
from bntricks.report.tables.table import to_csv, to_json
from bntricks.report.verdicts import verdicts
from bntricks.runs.config import Config
from bntricks.runs.metrics import choosable, chosen
from helpers.records import HOSTILE, a_run, runs, written

BEFORE = {"untrained": [None, 50.0], "just_before": [None, 60.0]}
MISTAKES = {
    "0": {"0": 9, "1": 1},
    "1": {"1": 5, "0": 5},
    "2": {"2": 5, "3": 5},
    "3": {"3": 5, "2": 5},
}
FOUR_CLASSES = {
    "fingerprint": "f" * 16,
    "classes": [[0, 1], [2, 3]],
    "class_names": ["cat", HOSTILE, "ship", "truck"],
    "images": {"train": 40, "test": 40},
    "official_images": None,
    "cut_down": False,
}


def confused(seed=0):
    r = [[90.0, None], [70.0, 50.0]]
    epochs = [{"task": 1, "epoch": 1, "accuracy": [80.0]}]
    parts = {"confusion": MISTAKES, "data": FOUR_CLASSES, "epoch_accuracy": epochs}
    return a_run("er", seed, r=r, before_learning=BEFORE, task_il_accuracy=r, **parts)


def test_a_table_has_the_columns_that_were_chosen_and_a_dash_where_nothing_was_measured():
    groups = group([confused(), a_run("er-bnt", 0)])
    table = results_table(groups, metrics=("forward_transfer", "acc", "task_il_acc"))
    assert table.columns[2:5] == ("Forward transfer", "ACC", "Paper ACC")
    assert "BWT" not in table.columns
    texts = {row[1].text: row[2].text for row in table.rows}
    assert texts == {"ER": "10.00", "ER-BNT": "–"}
    assert table.numeric(2)
    assert [row["Forward transfer"] for row in to_json(table)["rows"]] == [10.0, None]


def test_a_metric_that_is_not_one_number_is_refused_with_those_that_are():
    assert chosen(["average-incremental", "acc", "acc"]) == ("average_incremental", "acc")
    for name in ("accuracy", "acc_after_each_task"):
        with pytest.raises(UserError, match=r"there are acc, bwt, .*forward_transfer") as refusal:
            chosen([name])
        assert (refusal.value.option, refusal.value.value) == ("metrics", name)


def test_an_interval_is_two_numbers_in_csv():
    from bntricks.paper import load_study

    study = load_study("main")
    knobs = study.values("lite", "seq-cifar10")
    records = runs("er", [60.0, 61.5, 62.0], **knobs) + runs("er-bnt", [50.0, 51.0, 52.0], **knobs)
    judgements = verdicts(study, "lite", group(records))
    [judged] = [j for j in judgements if j.low is not None and j.metric == "acc"][:1]
    rows = list(csv.DictReader(io.StringIO(to_csv(verdict_table(judgements)))))
    [row] = [row for row in rows if row["low"] and float(row["low"]) == judged.low][:1]
    assert float(row["high"]) == judged.high < 0
    assert "95% interval" not in row


def test_a_run_is_one_row_with_every_option_and_final_metric_and_no_measurement_has_such_a_name():
    own = confused(1).config.model_copy(update={"hyper": {"alpha": 0.25}, "tasks": ("a,b", "c")})
    records = Records([confused(0), confused(1).model_copy(update={"config": own})])
    rows = records.rows()
    assert [row["seed"] for row in rows] == [0, 1]
    assert len({tuple(row) for row in rows}) == 1
    assert {*Config.model_fields} - {"hyper"} | {*choosable()} <= {*rows[0]}
    assert [row["acc"] for row in rows] == [60.0, 60.0]
    assert rows[0]["average_incremental"] == 75.0
    assert [row["alpha"] for row in rows] == [None, 0.25]
    assert json.loads(rows[1]["tasks"]) == ["a,b", "c"]
    assert not {row["metric"] for row in records.measurements()} & {*choosable()}


def test_every_measurement_of_a_run_has_a_row():
    rows = Records([confused()]).measurements()
    assert all(tuple(row) == COLUMNS for row in rows)
    keys = ("after_task", "epoch", "task", "class", "metric")
    values = {tuple(row[key] for key in keys): row["value"] for row in rows}
    assert len(values) == len(rows)
    assert values[2, None, 1, None, "accuracy"] == 70.0
    assert (1, None, 2, None, "accuracy") not in values
    assert values[1, 1, 1, None, "accuracy"] == 80.0
    assert values[0, None, 2, None, "untrained_task_il_accuracy"] == 50.0
    assert values[1, None, 2, None, "next_task_il_accuracy"] == 60.0
    assert values[1, None, None, None, "acc_so_far"] == 90.0
    assert values[2, None, None, None, "acc_so_far"] == 60.0
    assert values[2, None, None, "cat", "class_accuracy"] == 90.0


def test_records_become_rows_and_with_pandas_a_frame(tmp_path, monkeypatch):
    written(tmp_path, confused(0), confused(1))
    records = load_records(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows: ("f", rows)))
    assert records.frame() == ("f", records.rows())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"pip install 'bntricks\[pandas\]'"):
        records.frame()


def test_a_report_shows_which_class_is_taken_for_which():
    [part] = build([confused(0), confused(1)]).streams
    figure = part.figures[-1]
    shares = {(row["true"], row["predicted"]): row["share"] for row in figure.rows}
    assert shares["cat", "cat"] == 90.0
    assert shares["ship", "truck"] == 50.0
    assert [row[1].number for row in part.classes.rows] == [90.0, 50.0, 50.0, 50.0]
    assert build([a_run()]).streams[0].classes is None


def test_two_classes_of_one_name_stay_two():
    record = confused()
    names = ("cat", "cat", "ship", "truck")
    data = record.data.model_copy(update={"class_names": names})
    [part] = build([record.model_copy(update={"data": data})]).streams
    shares = {(row["true"], row["predicted"]): row["share"] for row in part.figures[-1].rows}
    assert shares["cat (1)", "cat (0)"] == 50.0
    assert [row[0].text for row in part.classes.rows] == ["cat (0)", "cat (1)", "ship", "truck"]


def test_with_many_classes_the_picture_is_of_tasks(monkeypatch):
    monkeypatch.setattr("bntricks.report.figures.confusion.CLASSES_UP_TO", 3)
    [part] = build([confused()]).streams
    shares = {(row["true"], row["predicted"]): row["share"] for row in part.figures[-1].rows}
    assert shares == {("1", "1"): 100.0, ("2", "2"): 100.0, ("1", "2"): 0.0, ("2", "1"): 0.0}
