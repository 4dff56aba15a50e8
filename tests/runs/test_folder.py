"""Runs on disk: a record is believed only if it is whole and the run's own."""

import json
import os
from types import SimpleNamespace

import pytest

from bntricks.errors import UserError
from bntricks.report.groups import group
from bntricks.report.results import SHARE, cost_table
from bntricks.runs import record_file as records
from bntricks.runs.checkpoint import NEWEST
from bntricks.runs.config import Config
from bntricks.runs.folder import run
from bntricks.sweeps.local import Failure, Shared
from bntricks.sweeps.plan import seconds_left
from bntricks.sweeps.ray import _result

pytestmark = pytest.mark.fault

TINY = {"stream": "seq-digits", "width": 2, "blocks": 1, "stages": 2, "epochs": 1}
SGD = Config(method="sgd", images_per_class=20, **TINY)
MEASURED = {"seconds", "images_per_second", "peak_memory_mb"}


def results(record):
    return {key: value for key, value in record.to_json().items() if key not in MEASURED}


@pytest.fixture
def trained(tmp_path):
    return run(SGD, out=tmp_path)


def better(content):
    return json.dumps(json.loads(content) | {"acc": 99.0}).encode()


@pytest.mark.parametrize(
    "damage",
    [better, lambda content: b'{"accuracy": [[1]]}', lambda content: content[:-1]],
    ids=["a better accuracy", "hardly a record", "a torn one"],
)
def test_a_damaged_record_is_named_and_its_run_is_trained_again(tmp_path, trained, damage):
    path = trained.path / records.NAME
    path.write_bytes(damaged := damage(path.read_bytes()))
    events = []
    assert seconds_left([SGD], Shared(out=tmp_path)) > 0
    again = run(SGD, out=tmp_path, sink=events.append)
    assert not again.already_there
    assert results(again) == results(trained)
    (warning,) = [event["text"] for event in events if event["event"] == "warning"]
    assert str(path) in warning
    assert "trained again" in warning
    assert (trained.path / records.REFUSED).read_bytes() == damaged
    assert run(SGD, out=tmp_path).already_there


def test_a_damaged_record_gives_way_to_that_of_the_same_recipe(tmp_path):
    names = ("er-cur+buf", "er-bnt-imbalance-tracker")
    first, second = (Config(method=name, memory=20, **TINY) for name in names)
    expected = run(first, out=tmp_path)
    borrowed = run(second, out=tmp_path)
    (borrowed.path / records.NAME).write_text("{}")
    events = []
    again = run(second, out=tmp_path, sink=events.append)
    assert again.already_there
    assert again.accuracy == expected.accuracy
    assert [event["event"] for event in events].count("warning") == 1
    assert records.read(borrowed.path / records.NAME).trained_as == "er-cur+buf"


def test_a_whole_record_of_another_run_is_not_written_over(tmp_path, trained):
    other = run(SGD.model_copy(update={"seed": 1}), out=tmp_path)
    content = (other.path / records.NAME).read_bytes()
    (trained.path / records.NAME).write_bytes(content)
    assert seconds_left([SGD], Shared(out=tmp_path)) > 0
    with pytest.raises(UserError, match="of another run"):
        run(SGD, out=tmp_path)
    assert (trained.path / records.NAME).read_bytes() == content


@pytest.mark.parametrize("replace", [os.mkdir, os.mkfifo], ids=["a folder", "a pipe"])
def test_a_record_that_cannot_be_read_says_so(tmp_path, trained, replace):
    path = trained.path / records.NAME
    path.unlink()
    replace(path)
    with pytest.raises(UserError, match=r"cannot read .*record.json: it is not a regular file"):
        run(SGD, out=tmp_path)


def test_a_record_that_may_not_be_read_says_so(tmp_path, trained, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.exists", refuse)
    with pytest.raises(UserError, match=r"cannot read .*record.json: Permission denied"):
        run(SGD, out=tmp_path)


def test_a_folder_in_a_checkpoints_place_is_no_reason_to_give_up(tmp_path, trained):
    (trained.path / records.NAME).unlink()
    (trained.path / NEWEST).mkdir()
    events = []
    again = run(SGD, out=tmp_path, sink=events.append)
    assert results(again) == results(trained)
    (warning,) = [event["text"] for event in events if event["event"] == "warning"]
    assert f"{NEWEST} is not a whole checkpoint" in warning


@pytest.mark.parametrize(
    ("knobs", "share"),
    [({}, 0.6), ({"method": "er-balance-batch"}, 0.36), ({"memory_batch": 16}, None)],
)
def test_a_record_and_its_report_say_how_much_of_phi_is_new(tmp_path, knobs, share):
    record = run(SGD.model_copy(update={"method": "er", "memory": 20, **knobs}), out=tmp_path)
    assert record.new_share_of_phi == pytest.approx(share)
    table = cost_table(group([record]))
    if share is None:
        assert SHARE not in table.names
    else:
        assert table.column(table.names.index(SHARE))[0].text == f"{share:.2f}"


def test_a_record_says_how_many_different_images_the_memory_held(tmp_path, trained):
    assert "distinct" not in trained.to_json()  # SGD has no memory
    config = Config(method="er", memory=60, images_per_class=6, **{**TINY, "epochs": 9})
    record = run(config, out=tmp_path)
    assert 0 < record.distinct < 60  # offered nine times, some are stored more than once
    assert record.to_json()["distinct"] == record.distinct
    assert run(config, out=tmp_path).distinct == record.distinct


class TestRay:
    """What a node hands back, without a cluster."""

    def result(self, record, files):
        ray = SimpleNamespace(
            get=lambda reference: (record, files),
            exceptions=SimpleNamespace(RayTaskError=KeyError, RayError=KeyError),
        )
        return _result(ray, None, SGD)

    def test_the_record_of_a_node_takes_the_place_of_a_damaged_one(self, trained):
        path = trained.path / records.NAME
        content = path.read_bytes()
        path.write_bytes(better(content))
        assert self.result(trained, {records.NAME: content}).acc == trained.acc
        assert records.read(path).acc == trained.acc

    def test_a_damaged_record_of_a_node_is_a_failure_of_that_run_alone(self, trained):
        path = trained.path / records.NAME
        damaged = better(path.read_bytes())
        path.unlink()
        failed = self.result(trained, {records.NAME: damaged})
        assert isinstance(failed, Failure)
        assert "is no record of a run" in str(failed.error)
