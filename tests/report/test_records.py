"""What a report reads: whole records only, each run once, and never a mean over two protocols."""

import json
import subprocess
import sys

import pytest

from bntricks.errors import UserError
from bntricks.report.groups import group
from bntricks.report.records import load_records, with_readings
from bntricks.report.tables.results import results_table
from bntricks.runs.record.file import NAME
from helpers.records import HOSTILE, a_run, runs, written


def test_a_file_a_run_and_a_folder_of_runs_all_load(tmp_path):
    written(tmp_path / "deep" / "runs", a_run(seed=0), a_run(seed=1))
    run = tmp_path / "deep" / "runs" / "run0"
    assert [r.seed for r in load_records([tmp_path])] == [0, 1]
    assert [r.path for r in load_records([run])] == [run]
    assert load_records([run / "record.json"]) == load_records([run])
    assert len(load_records([tmp_path, run, str(run / "record.json")])) == 2


def test_a_run_of_its_own_counts_more_than_a_reading_of_another():
    read = {"er-bnt": {"accuracy": [[90.0, None], [60.0, 60.0]], "task_il_accuracy": []}}
    trunk, own = a_run("er-cur+buf", readings=read), a_run("er-bnt", final=61.0)
    for given in ([trunk, own], [own, trunk]):
        assert {run.method: run.acc for run in with_readings(given)} == {
            "er-bnt": 61.0,
            "er-cur+buf": 50.0,
        }
    assert [run.acc for run in with_readings([trunk])] == [60.0, 50.0]


def test_nothing_to_report_is_said_with_the_place(tmp_path):
    with pytest.raises(UserError, match="no runs given"):
        load_records([])
    with pytest.raises(UserError, match=f"{tmp_path} holds no finished run"):
        load_records([tmp_path])
    with pytest.raises(UserError, match="away: no such file or folder"):
        load_records([tmp_path / "away"])


def test_one_empty_folder_among_good_ones_is_not_passed_over(tmp_path):
    good = written(tmp_path / "good", a_run())
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty holds no finished run"):
        load_records([good, tmp_path / "empty"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not whole JSON"),
        ('{"method": "er", "acc', "not whole JSON"),
        ("[1, 2]", "not a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ("{}", "config: Field required"),
        ('{"acc": NaN}', "nan is not a valid number"),
    ],
)
def test_a_file_that_is_no_record_is_named(tmp_path, text, reason):
    written(tmp_path, a_run())
    (tmp_path / "run0" / "record.json").write_text(text)
    with pytest.raises(UserError, match=rf"run0/record.json is not a valid run record .*{reason}"):
        load_records([tmp_path])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"acc": 99.0}, "acc does not follow from the accuracy matrix"),
        ({"acc": "50"}, "acc does not follow"),
        ({"bwt": None}, "bwt does not follow"),
        ({"acc_after_each_task": [90.0]}, "acc_after_each_task does not follow"),
        ({"accuracy": [[90.0, None], [50.0, 150.0]]}, "accuracy.1.1: .* less than or equal to 100"),
        ({"accuracy": [[90.0, None], [50.0]]}, "accuracy is not a square matrix"),
        ({"accuracy": [[90.0, None], [50.0, None]]}, "accuracy is not a square matrix"),
        ({"accuracy": []}, "accuracy is not a square matrix"),
        ({"seed": 7}, "seed is not the configuration's"),
        ({"method": "gem"}, "method is not the configuration's"),
        ({"images_per_second": 0}, "images_per_second: "),
        ({"config": {"method": "er", "knob": 1}}, r"config.knob: "),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(tmp_path, change, reason):
    (tmp_path / NAME).write_text(json.dumps({**a_run().to_json(), **change}))
    with pytest.raises(UserError, match=reason):
        load_records([tmp_path])


def test_a_knob_newer_than_the_record_is_at_its_default(tmp_path):
    written(tmp_path, a_run(seed=0), a_run(seed=1))
    old = json.loads((tmp_path / "run0" / NAME).read_text())
    del old["config"]["precision"], old["checksum"]
    (tmp_path / "run0" / NAME).write_text(json.dumps(old))
    (together,) = group(load_records([tmp_path]))
    assert seeds(together) == [0, 1]


def seeds(group):
    return [record.seed for record in group.records]


def test_mean_and_deviation_are_over_the_seeds():
    (er,) = group(runs("er", [50.0, 53.0, 59.0]))
    assert er.mean("acc") == pytest.approx(54.0)
    assert er.sd("acc") == pytest.approx(21**0.5)  # (16 + 1 + 25) / 2
    assert er.mean("bwt") == pytest.approx(-36.0)


def test_the_same_run_twice_counts_once():
    (er,) = group([a_run(final=50.0), a_run(final=50.0), a_run(seed=1, final=60.0)])
    assert (seeds(er), er.mean("acc")) == ([0, 1], 55.0)


def test_one_run_with_two_results_is_an_error():
    with pytest.raises(UserError, match="twice with different results: remove here or there"):
        group([a_run(final=50.0, path="here"), a_run(final=51.0, path="there")])


@pytest.mark.parametrize(
    ("a", "b", "labels"),
    [
        ({"epochs": 2}, {"epochs": 5}, ["ER (epochs 2)", "ER (epochs 5)"]),
        ({"memory": 500}, {"memory": 200}, ["ER (memory 200)", "ER (memory 500)"]),
        ({"memory": None}, {"memory": 200}, ["ER (memory 200)", "ER (memory none)"]),
        ({"hyper": {"a": 1}}, {"hyper": {"a": 2}}, ["ER (a 1.0)", "ER (a 2.0)"]),
        ({}, {"as_published": True}, ["ER", "ER (as published)"]),
        ({"fingerprint": "x"}, {"fingerprint": "y"}, ["ER (data x)", "ER (data y)"]),
        ({"tasks": ["a,b"]}, {"tasks": None}, ["ER", "ER (tasks a,b)"]),
    ],
)
def test_protocols_are_kept_apart_and_labelled(a, b, labels):
    groups = group([a_run(seed=0, final=40.0, **a), a_run(seed=1, final=60.0, **b)])
    assert sorted(g.label for g in groups) == labels
    assert sorted(g.mean("acc") for g in groups) == [40.0, 60.0]


def test_methods_of_one_protocol_go_by_their_names_in_the_papers_order():
    records = [
        a_run("zeta"),
        a_run("er-bnt", balance="ratio"),
        a_run("der++", hyper={"alpha": 0.1}),
        a_run("er"),
        a_run("sgd", memory=None),
    ]
    assert [g.label for g in group(records)] == ["SGD", "ER", "ER-BNT", "DER++", "zeta"]


def test_a_protocol_that_differs_between_methods_is_told():
    groups = group([a_run("er", epochs=2), a_run("er-bnt", epochs=5), a_run("gem", epochs=5)])
    assert [g.label for g in groups] == ["GEM", "ER (epochs 2)", "ER-BNT"]
    assert [g.variant for g in groups] == ["", "epochs 2", ""]
    halves = group([a_run("er", epochs=2), a_run("er-bnt", epochs=5)])
    assert [g.label for g in halves] == ["ER (epochs 2)", "ER-BNT (epochs 5)"]


def test_data_is_told_apart_by_its_size_or_else_by_its_fingerprint():
    whole, cut = a_run(fingerprint="a" * 16), a_run(fingerprint="b" * 16, cut_down=True)
    assert [g.label for g in group([whole, cut])] == ["ER (200 images)", "ER (50000 images)"]
    other = a_run(fingerprint="c" * 16)
    assert [g.label for g in group([whole, other])] == ["ER (data aaaaaaaa)", "ER (data cccccccc)"]


def test_the_best_is_the_best_of_its_own_protocol():
    joint = [[None, None], [99.0, 99.0]]
    records = [
        a_run("joint", r=joint, memory=None),
        a_run("sgd", final=10.0, memory=None),
        a_run("er", final=50.0, memory=200),
        a_run("er-bnt", final=55.0, memory=200),
        a_run("er", final=60.0, memory=500),
        a_run("er-bnt", final=65.0, memory=500),
        a_run("gem", final=90.0, epochs=1),
        a_run("er", final=90.0, stream="seq-cifar100"),
    ]
    table = results_table(group(records))
    method, memory, acc = map(table.columns.index, ("Method", "Memory", "ACC"))
    marked = [(row[method].text, row[memory].text) for row in table.rows if row[acc].bold]
    assert marked == [("ER-BNT", "200"), ("ER-BNT", "500")]


def test_runs_of_other_numbers_of_tasks_are_no_group():
    with pytest.raises(UserError, match="different numbers of tasks"):
        group([a_run(seed=0), a_run(seed=1, r=[[50.0]])])


def test_reading_records_needs_no_torch(tmp_path):
    written(tmp_path, a_run())
    code = (
        "import sys; from bntricks.report.groups import group;"
        "from bntricks.report.records import load_records;"
        f"group(load_records([{str(tmp_path)!r}])); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_hostile_names_are_only_names(tmp_path):
    written(tmp_path, a_run(HOSTILE, hyper={HOSTILE: 1.0}))
    (record,) = load_records([tmp_path])
    assert record.method == HOSTILE
    assert group([record])[0].label == HOSTILE
