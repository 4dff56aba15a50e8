"""Files that earlier versions wrote stay readable. `old_files/make.py` made them with the code of
each version, and recorded what they must be read as."""

import csv
import json
import shutil
from pathlib import Path

import pytest
import torch

from bntricks import Model, load_records, run
from bntricks.runs.config import REVISION, Config
from bntricks.runs.folder import REQUEST, resume
from bntricks.runs.resolve import versions
from bntricks.training.checkpoint import NEWEST, pack, unpack
from helpers.command_line import bnt
from old_files.make import STOPS_AT, build, digits, samples

pytestmark = pytest.mark.journey

OLD_FILES = Path(__file__).parent / "old_files"
CURRENT = OLD_FILES / "0.2.0"


def expected(kind, version=CURRENT):
    return json.loads((version / "expected.json").read_text(encoding="utf-8"))[kind]


EVERY = {
    kind: [
        pytest.param(
            version / kind, name, expected(kind, version)[name], id=f"{version.name}-{name}"
        )
        for version in sorted(path.parent for path in OLD_FILES.glob("*/expected.json"))
        for name in expected(kind, version)
    ]
    for kind in ("runs", "interrupted", "models")
}


def label(row):
    """The method, or what a reading of it is called."""
    return row.method if row.config.correct == "none" else row.config.correct


def plain(matrix):
    return [list(row) for row in matrix]


def copied(folder, to):
    shutil.copytree(folder, to)
    return to


@pytest.mark.parametrize(("runs", "name", "then"), EVERY["runs"])
def test_an_old_record_has_the_numbers_it_was_written_with(runs, name, then):
    rows = {label(row): row for row in load_records(runs / then["folder"])}
    record = rows.pop(name)
    assert (record.acc, record.bwt) == (then["acc"], then["bwt"])
    assert plain(record.accuracy) == then["accuracy"]
    assert {name: row.acc for name, row in rows.items()} == then["readings"]
    assert (record.phi and record.phi.oracle_acc) == then["oracle_acc"]


def test_the_old_runs_have_readings_and_a_probed_phi():
    probed = expected("runs")["er-cur+buf"]
    assert {"wa-eval", "prior", "er-bnt"} <= probed["readings"].keys()
    assert probed["oracle_acc"] is not None


@pytest.mark.parametrize(("runs", "name", "then"), EVERY["runs"])
def test_an_old_run_is_found_and_not_trained_again(runs, name, then, tmp_path):
    out = copied(runs, tmp_path / "runs")
    request = json.loads((out / then["folder"] / REQUEST).read_bytes())
    wanted = {key: request[key] for key in ("probe", "save", "epoch_accuracy", "readings")}
    record = run(Config.of(**request["config"]), out=out, **wanted)
    assert record.already_there
    assert record.path == out / then["folder"]
    assert record.acc == then["acc"]


def test_a_report_is_made_of_old_runs(tmp_path):
    done = bnt("report", CURRENT / "runs", "--out", tmp_path / "report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "report" / "results.csv").open(encoding="utf-8") as file:
        rows = {(row["Method"], row["Correction"]): row for row in csv.DictReader(file)}
    assert float(rows["ER-Cur+Buf", "none"]["ACC"]) == expected("runs")["er-cur+buf"]["acc"]
    assert ("ER-Cur+Buf", "prior") in rows
    assert (tmp_path / "report" / "figures" / "share-of-phi-seq-digits.svg").exists()


def test_the_model_that_an_old_run_saved_can_be_used():
    model = Model.load(next(CURRENT.glob("runs/*/model.safetensors")))
    assert model.classes == tuple(map(str, range(10)))
    assert set(model.predict(samples())) <= set(model.classes)


@pytest.mark.parametrize(("interrupted", "name", "then"), EVERY["interrupted"])
def test_an_old_checkpoint_is_continued_to_the_same_bits(interrupted, name, then, tmp_path):
    folder = copied(interrupted / name, tmp_path / "continued") / then["folder"]
    as_if_of_today(folder / NEWEST)
    request = json.loads((folder / REQUEST).read_bytes())
    wanted = {key: request[key] for key in ("probe", "epoch_accuracy", "readings")}
    events = []
    continued = resume(folder, sink=events.append)
    (resumed,) = [event for event in events if event["event"] == "resumed"]
    assert 0 < resumed["step"] < resumed["steps"]
    before_it = STOPS_AT["task"] - 1
    assert plain(continued.accuracy)[:before_it] == then["accuracy"][:before_it]
    assert not (folder / NEWEST).exists()

    whole = run(Config.of(**request["config"]), out=tmp_path / "whole", **wanted)
    if whole.digest["network"] == then["digest"]["network"]:  # a machine with the same arithmetic
        assert continued.digest == whole.digest
        assert continued.readings == whole.readings
        assert continued.phi == whole.phi


def as_if_of_today(path):
    """Sign a checkpoint with the versions of today if it has others, which would be refused: bits
    are promised only within a version, but a file of any must be understood."""
    content = unpack(path.read_bytes())
    today = {**versions(), "revision": str(REVISION)}
    if not today.items() <= content["made_with"].items():
        content["made_with"] |= today
        path.write_bytes(pack(content))


@pytest.mark.parametrize(("models", "name", "then"), EVERY["models"])
def test_an_old_model_gives_the_same_answers_and_goes_on_learning(models, name, then):
    model = Model.load(models / f"{name}.safetensors", net=build if name == "adopted" else None)
    assert list(model.classes) == then["classes"]
    assert model.predict(samples()) == then["answers"]
    probabilities = torch.tensor(then["probabilities"])
    torch.testing.assert_close(model.predict_proba(samples()), probabilities, rtol=0, atol=1e-4)

    learned = model.learn({"3": digits()["3"][:20]}, epochs=1)
    assert model.classes == (*then["classes"], "3")
    assert len(learned.tasks) == 3
