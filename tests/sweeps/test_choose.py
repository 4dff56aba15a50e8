"""A report of a study is of the runs that the study planned, whatever else lies in their folder."""

import pytest

from bntricks import load_records
from bntricks.cli.training import train_all
from bntricks.cli.work import Work
from bntricks.errors import UserError
from bntricks.paper import load_study
from bntricks.report.groups import group
from bntricks.report.verdicts import verdicts
from bntricks.runs.record import file as files
from bntricks.runs.request import Request
from bntricks.streams import registry
from bntricks.sweeps.plan import choose, complete
from helpers.command_line import bnt
from helpers.pages import ROOT
from helpers.records import a_run, written
from helpers.studies import study_runs

PILOT = load_study("pilot")
LITE = study_runs("pilot", seeds=4)
OTHERS = [
    {"lr": 0.1},
    {"epochs": 3},
    {"method": "er-bnt"},
    {"correct": "bic"},
    {"validation": 0.1},
    {"stream": "seq-cifar100"},
]
"""Changes that make a run of the pilot study one of nobody's."""


@pytest.fixture(scope="module")
def committed():
    return load_records(ROOT / "docs" / "results")


def changed(record, **options):
    return record.model_copy(update={"config": record.config.model_copy(update=options)})


def test_a_report_has_the_runs_that_the_study_planned_and_no_others():
    others = [changed(record, **change) for change in OTHERS for record in LITE[:1]]
    elsewhere = [changed(record, device="cuda", seed=17, imports={"my.py": "0"}) for record in LITE]
    assert choose(PILOT, "lite", [*others, *LITE]) == LITE
    assert choose(PILOT, "lite", [*others, *elsewhere]) == elsewhere
    with pytest.raises(UserError, match="mixed protocols"):
        verdicts(PILOT, "lite", group([*others, *LITE]))


def test_other_hyper_parameters_make_another_run():
    main = load_study("main")
    run = next(each for each in study_runs("main", seeds=1) if each.method == "der++")
    usual, other = (changed(run, hyper={"alpha": a, "beta": 0.5}) for a in (0.2, 0.7))
    assert choose(main, "lite", [other, usual]) == [usual]


def test_a_method_of_ones_own_counts_in_the_studys_protocol():
    mine = changed(LITE[0], method="mine", imports={"my.py": "0"})
    assert choose(PILOT, "lite", [mine, *LITE]) == [mine, *LITE]
    assert choose(PILOT, "lite", [changed(mine, stream="seq-cifar100"), *LITE]) == LITE


def test_runs_on_another_stream_are_the_studys_if_it_has_none_on_its_own():
    moved = [changed(record, stream="seq-digits") for record in LITE]
    other = changed(moved[0], lr=0.1)
    assert choose(PILOT, "lite", [other, *moved]) == moved
    assert choose(PILOT, "lite", [*moved, *LITE]) == LITE


def test_one_scale_is_never_taken_for_another_unless_it_is_all_there_is():
    medium = study_runs("pilot", "medium", seeds=2)
    assert choose(PILOT, "medium", [*LITE, *medium]) == medium
    assert choose(PILOT, "paper", LITE) == LITE  # whose report says what differs
    with pytest.raises(UserError, match="there are 8 at medium and 16 at lite") as refusal:
        choose(PILOT, "paper", [*LITE, *medium])
    assert refusal.value.option == "scale"
    other = [changed(record, lr=0.1) for record in LITE]
    assert choose(PILOT, "lite", other) == other


def test_runs_on_other_images_are_told_apart():
    def with_images(record, fingerprint, *, cut_down):
        data = record.data.model_copy(update={"fingerprint": fingerprint, "cut_down": cut_down})
        return record.model_copy(update={"data": data})

    cut = [with_images(record, "cut", cut_down=True) for record in LITE[:10]]
    whole = [with_images(record, "whole", cut_down=False) for record in LITE[10:]]
    assert choose(PILOT, "lite", [*whole, *cut]) == cut
    medium = [changed(each, **PILOT.values("medium", "seq-cifar10")) for each in (*cut, *whole)]
    assert choose(PILOT, "medium", medium) == medium[10:]


@pytest.mark.parametrize("name", ["pilot", "control", pytest.param("all", marks=pytest.mark.slow)])
def test_the_committed_records_report_every_study_they_have_runs_of(committed, name):
    pairs = 0
    for each in studies() if name == "all" else [name]:
        study = load_study(each)
        for scale in ("medium", "lite"):
            own = choose(study, scale, committed)
            if len(own) < len(committed):
                pairs += 1
                verdicts(study, scale, group(own))
    assert pairs >= (12 if name == "all" else 2)


def studies():
    from bntricks.paper import study_names

    return [name for name in study_names() if load_study(name).streams]


def test_the_command_reports_them_and_says_what_it_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("bntricks.report.files.rendered", lambda figure: {})
    written(tmp_path / "runs", *LITE[:4], changed(LITE[0], lr=0.1))
    done = bnt("report", "runs", "--study", "pilot", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "bnt: 4 of 5 runs are of pilot, the rest not\n"
    assert "changed protocol" not in done.stdout


def test_complete_records_need_no_data(tmp_path, monkeypatch, capsys):
    """Nothing is opened: that data set is the same wherever it comes from."""
    monkeypatch.delenv("BNT_DATA", raising=False)
    monkeypatch.setitem(registry.OPENERS.entries(), "seq-cifar10", None)
    medium = study_runs("pilot", "medium", seeds=2)
    written(tmp_path, *medium)
    configs = PILOT.configs("medium", seeds=2)
    results = train_all("pilot", configs, Work(out=tmp_path))
    assert [(run.method, run.seed) for run in results] == [(c.method, c.seed) for c in configs]
    assert [run.accuracy for run in results] == [run.accuracy for run in medium]
    assert capsys.readouterr().err.count("(already there)") == len(configs)


@pytest.mark.parametrize(
    "asked", [{"data": "given"}, {"force": True}, {"save": "end"}, {"probe": "phi"}]
)
def test_whatever_else_is_asked_for_needs_the_data(tmp_path, monkeypatch, asked):
    monkeypatch.delenv("BNT_DATA", raising=False)
    written(tmp_path, *LITE)
    configs = PILOT.configs("lite", seeds=1)
    assert complete(configs, Request.of(out=tmp_path))
    assert complete(configs, Request.of(out=tmp_path, **asked)) is None
    assert complete(PILOT.configs("lite", seeds=5), Request.of(out=tmp_path)) is None
    files.save(a_run(cut_down=True), tmp_path / "run0")
    assert complete(configs, Request.of(out=tmp_path)) is None


def test_a_reading_and_its_run_are_named_once():
    readings = {"prior": {"accuracy": [[90.0, None], [60.0, 60.0]], "task_il_accuracy": []}}
    run = a_run("er", readings=readings, path="runs/one", epochs=40, width=16, blocks=1)
    other = run.read_as("prior")
    with pytest.raises(UserError) as refusal:
        verdicts(PILOT, "lite", group([run, other]))
    assert str(refusal.value).count("er on seq-cifar10, seed 0") == 1
