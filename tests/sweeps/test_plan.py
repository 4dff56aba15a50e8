"""Which runs a study needs, and how long they take."""

import re

import pytest

from bntricks.errors import UserError
from bntricks.paper import Study, load_study, study_names
from bntricks.runs.config import Config
from bntricks.runs.resolve import normalised, resolve
from bntricks.sweeps.estimate import seconds_left, step_seconds
from bntricks.sweeps.local import Failure, Shared, sweep
from bntricks.sweeps.plan import check_claims, plan
from bntricks.sweeps.search import search

TINY = {"stream": "seq-digits", "width": 2, "blocks": 1, "stages": 2, "epochs": 1}
TINY |= {"images_per_class": 10}


def test_a_stream_that_is_not_the_studys_leaves_its_own_streams_alone():
    main = load_study("main")
    both = plan(main, "paper", streams=["seq-digits", "seq-tiny-imagenet"], seeds=2)
    alone = plan(main, "paper", streams=["seq-tiny-imagenet"], seeds=2)
    assert [config for config in both if config.stream == "seq-tiny-imagenet"] == alone
    moved = [config for config in both if config.stream == "seq-digits"]
    assert {config.method for config in moved} == {*main.methods}
    lite = plan(main, "lite", streams=["seq-digits", "seq-cifar100"], seeds=1)
    assert {c.memory for c in lite if c.stream == "seq-cifar100"} == {
        main.values("lite", "seq-cifar100")["memory"]
    }


@pytest.mark.parametrize("streams", [(), ["seq-digits", "folder"], ["seq-digits", "seq-cifar10"]])
def test_all_runs_of_a_seed_come_before_those_of_the_next(streams):
    seeds = [config.seed for config in plan(load_study("main"), "lite", streams=streams, seeds=3)]
    assert seeds == sorted(seeds)
    assert set(seeds) == {0, 1, 2}


def test_a_plan_without_runs_says_what_leaves_them_out():
    choice = {"methods": ["gem"], "streams": ["seq-tiny-imagenet"]}
    words = "no runs are left: main leaves out gem on seq-tiny-imagenet because of the training"
    with pytest.raises(UserError, match=words) as refused:
        plan(load_study("main"), "lite", **choice)
    assert refused.value.remedy == "all"
    assert plan(load_study("main"), "lite", everything=True, **choice)


def test_a_run_with_fewer_images_than_a_batch_can_be_timed():
    stream, config = resolve(Config(method="lwf", **TINY), None)
    assert step_seconds(config, stream) > 0


def test_a_run_that_cannot_be_timed_costs_the_estimate_and_not_the_study(tmp_path, monkeypatch):
    def fails(config, stream):
        raise ZeroDivisionError("a loss of one's own, in a batch of one class")

    monkeypatch.setattr("bntricks.sweeps.estimate.step_seconds", fails)
    assert seconds_left([Config(method="sgd", **TINY)], Shared(out=tmp_path)) == 0


def test_runs_that_are_one_training_are_trained_once(tmp_path):
    sgd = [Config(method="sgd", memory=size, **TINY) for size in (10, 20)]
    er = [Config(method="er", memory=20, balance=by, **TINY) for by in ("count", "ratio")]
    events = []
    shared = Shared(out=tmp_path)
    results = sweep([*sgd, *er], shared, workers=1, sink=events.append)
    assert not [each for each in results if isinstance(each, Failure)]
    assert [each.method for each in results] == ["sgd", "sgd", "er", "er"]
    assert len(list(tmp_path.iterdir())) == 2
    finished = sorted(event["run"] for event in events if event["event"] == "finished")
    assert finished == [0, 1, 2, 3]


def test_the_time_of_one_training_counts_once(tmp_path, monkeypatch):
    monkeypatch.setattr("bntricks.sweeps.estimate.step_seconds", lambda config, stream: 1.0)
    sgd = [Config(method="sgd", memory=size, **TINY) for size in (10, 20)]
    shared = Shared(out=tmp_path)
    assert seconds_left(sgd, shared) == seconds_left(sgd[:1], shared) > 0


def test_readings_of_one_network_are_trained_once(one_process, tmp_path):
    tried = {"correct": ["none", "wa-eval", "prior"]}
    events = []
    base = Config(method="er", memory=20, **TINY)
    shared = Shared(out=tmp_path)
    result = search(base, tried, seeds=1, shared=shared, workers=3, sink=events.append)
    accs = [cell.acc for cell in result.cells]
    assert [cell.records[0].config.correct for cell in result.cells] == tried["correct"]
    assert len(list(tmp_path.iterdir())) == 1
    finished = {event["run"]: event["acc"] for event in events if event["event"] == "finished"}
    assert [finished[index] for index in range(3)] == accs


def test_what_nothing_else_is_read_off_is_not_trained_again_beside_what_is(one_process, tmp_path):
    shared = Shared(out=tmp_path)
    alone = Config(method="sgd", **TINY)
    sweep([alone], shared, workers=1)
    read = [Config(method="er", memory=20, correct=name, **TINY) for name in ("none", "prior")]
    there, *trained = sweep([alone, *read], shared, workers=2)
    assert there.already_there
    assert there.readings is None
    assert not any(each.already_there for each in trained)
    assert seconds_left([alone, *read], shared) == 0


def test_each_of_several_configurations_of_one_failed_training_has_failed(one_process, tmp_path):
    configs = [Config(method="sgd", memory=m, seed=3, lr=1e29, **TINY) for m in (10, 20)]
    failures = sweep(configs, Shared(out=tmp_path), workers=2)
    assert [each.config.memory for each in failures] == [10, 20]
    assert all(isinstance(each, Failure) for each in failures)


def test_what_depends_on_no_image_is_as_resolve_leaves_it():
    asked = Config(method="sgd", net="resnet18", balance="ratio", momentum=0.1, memory=9, **TINY)
    config = resolve(asked, None)[1]
    assert normalised(asked) == config
    assert (config.net, config.balance, config.momentum, config.memory) == (
        "resnet",
        "count",
        None,
        None,
    )


def a_study(overrides, method="er-bnt", **scale):
    return Study.model_validate(
        {
            "name": "mine",
            "title": "Mine",
            "methods": ["er", "er-bnt", "sgd"],
            "streams": ["seq-digits"],
            "variants": [{"label": "usual"}, {"label": "other", "overrides": overrides}],
            "scale": {"lite": {"seeds": 1, "overrides": scale}},
            "claims": [
                {
                    "text": "a claim",
                    "kind": "greater",
                    "metric": "acc",
                    "stream": "seq-digits",
                    "a": {"method": method, "variant": "other"},
                    "b": {"method": "er-bnt", "variant": "usual"},
                }
            ],
        }
    )


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (
            a_study({"balance": "ratio"}, "er"),
            "er, other with balance ratio, which is the same run as with balance count: write that",
        ),
        (
            a_study({"momentum": 0.1}),
            "er-bnt, other with momentum 0.1, which is the same run as without momentum: write",
        ),
        (
            a_study({"lr": 0.1}, net="resnet18"),
            "with net resnet18, which is the same run as with net resnet: write that",
        ),
        (
            a_study({"lr": 0.1}, net="resnet32", width=8),
            "with width 8, which is the same run as with width 64: write that",
        ),
        (
            a_study({"lr": 0.1}, optimiser="sgdm", sgd_momentum=0.9),
            "with sgd_momentum 0.9, which is the same run as without sgd_momentum: write that",
        ),
    ],
    ids=["not used", "a default", "another name", "no such size", "another default"],
)
def test_a_claim_about_runs_that_no_report_would_recognise_is_refused(study, words):
    with pytest.raises(UserError, match=re.escape(words)):
        plan(study, "lite")


def test_runs_without_a_memory_are_those_of_every_size():
    study = a_study({"memory": 20}, "sgd", memory=10)
    assert len(plan(study, "lite")) == 6


@pytest.mark.parametrize("name", study_names())
def test_a_report_recognises_the_runs_of_every_claim_of_the_paper(name):
    study = load_study(name)
    for scale in study.scale:
        check_claims(study, scale)
