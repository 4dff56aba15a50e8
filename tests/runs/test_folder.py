"""Runs on disk: a record is believed only if it is whole and the run's own."""

import json
import mmap
import os
import sys
from types import SimpleNamespace

import pytest

from bntricks.errors import RunError, UserError
from bntricks.report.groups import group
from bntricks.report.records import load_records
from bntricks.report.tables.results import SHARE, cost_table
from bntricks.runs.config import Config
from bntricks.runs.describe import peak_memory_mb
from bntricks.runs.folder import resume, run
from bntricks.runs.record import Record, file as records
from bntricks.sweeps.estimate import seconds_left
from bntricks.sweeps.local import Failure, Shared
from bntricks.sweeps.ray import _result
from bntricks.training.checkpoint import BEFORE, NEWEST

pytestmark = pytest.mark.fault

TINY = {"stream": "seq-digits", "width": 2, "blocks": 1, "stages": 2, "epochs": 1}
SGD = Config(method="sgd", images_per_class=20, **TINY)
FIRST = records.EARLIER.format(1)
MEASURED = {"seconds", "finished", "images_per_second", "peak_memory_mb"}


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


@pytest.mark.skipif(sys.platform != "linux", reason="the peak can be reset on Linux only")
def test_the_peak_of_memory_is_that_of_the_run_and_not_of_what_was_before(tmp_path):
    with mmap.mmap(-1, 300 << 20) as large:  # which no allocator keeps
        large[:: mmap.PAGESIZE] = b"1" * (len(large) // mmap.PAGESIZE)
    before = peak_memory_mb()
    assert run(SGD, out=tmp_path).peak_memory_mb < before - 100


class PulledPlugError(Exception):
    pass


def stopped_at_a_task(number, error):
    def sink(event):
        if event["event"] == "task" and event["task"] == number:
            raise error

    return sink


def as_another_machine_would(record):
    """The record on disk as it would be if training came out differently there."""
    halved = tuple(tuple(None if x is None else x / 2 for x in row) for row in record.accuracy)
    values = {name: getattr(record, name) for name in Record.model_fields}
    values |= {"accuracy": halved, "confusion": None, "task_il_accuracy": ()}
    other = Record(**values)
    (record.path / records.NAME).write_text(json.dumps(other.to_json()))
    return other


def test_a_run_that_comes_out_differently_keeps_its_earlier_record_and_says_so(tmp_path):
    record = run(SGD, out=tmp_path, probe="phi", keep_network=True, save="every task")
    earlier = as_another_machine_would(record)
    events = []
    again = run(SGD, out=tmp_path, readings=True, sink=events.append)
    assert again.accuracy == record.accuracy
    assert records.read(record.path / FIRST).accuracy == earlier.accuracy
    (text,) = [event["text"] for event in events if event["event"] == "warning"]
    assert text == (
        f"{record.path}: trained again with different results (ACC {earlier.acc:.2f}, now "
        f"{again.acc:.2f}); the first counts in reports and is kept beside it"
    )
    assert again.phi is None
    assert not [*record.path.glob("map-*"), *record.path.glob("*.safetensors")]


def test_what_a_differing_training_was_asked_for_stays_beside_its_record(tmp_path, trained):
    as_another_machine_would(trained)
    again = run(SGD, out=tmp_path, probe="phi", keep_network=True)
    assert again.phi.acc == again.acc
    assert (trained.path / "map-phi.json").exists()
    assert (trained.path / "network.safetensors").exists()


def test_a_run_that_comes_out_the_same_replaces_nothing(tmp_path):
    record = run(SGD, out=tmp_path, probe="phi", save="end")
    events = []
    again = run(SGD, out=tmp_path, readings=True, sink=events.append)
    assert again.phi == record.phi
    assert (record.path / "model.safetensors").exists()
    assert not (record.path / FIRST).exists()
    assert "warning" not in {event["event"] for event in events}


def test_a_forced_run_that_is_interrupted_goes_on(tmp_path, trained):
    earlier = as_another_machine_would(trained)
    with pytest.raises(PulledPlugError):
        run(SGD, out=tmp_path, force=True, sink=stopped_at_a_task(2, PulledPlugError()))
    assert records.read(trained.path / FIRST).accuracy == earlier.accuracy
    events = []
    again = resume(trained.path, sink=events.append)
    kinds = [event["event"] for event in events]
    assert "resumed" in kinds
    assert "warning" in kinds
    assert not again.already_there
    assert again.accuracy == trained.accuracy


def test_a_new_run_that_fails_keeps_its_checkpoints(tmp_path):
    with pytest.raises(RunError):
        run(SGD, out=tmp_path, sink=stopped_at_a_task(2, MemoryError()))
    (folder,) = tmp_path.iterdir()
    assert (folder / NEWEST).exists()
    events = []
    run(SGD, out=tmp_path, sink=events.append)
    assert "resumed" in [event["event"] for event in events]


def test_a_new_run_that_fails_before_its_first_checkpoint_leaves_nothing(tmp_path):
    def fail(event):
        if event["event"] == "begin":
            raise MemoryError

    with pytest.raises(RunError):
        run(SGD, out=tmp_path, sink=fail)
    assert not list(tmp_path.iterdir())


class TestRay:
    """What a node hands back, without a cluster."""

    def result(self, record, files):
        ray = SimpleNamespace(
            get=lambda reference: (record, files),
            exceptions=SimpleNamespace(RayTaskError=KeyError, RayError=KeyError),
        )
        return _result(ray, None, 0, SGD, self.events.append)

    @pytest.fixture(autouse=True)
    def heard(self):
        self.events = []

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
        assert "is not a valid run record" in str(failed.error)

    def test_a_damaged_record_of_a_node_does_not_take_the_place_of_a_whole_one(self, trained):
        path = trained.path / records.NAME
        content = path.read_bytes()
        assert isinstance(self.result(trained, {records.NAME: better(content)}), Failure)
        assert path.read_bytes() == content

    def test_what_a_node_has_trained_again_takes_the_place_of_what_was_here(self, trained):
        read = run(SGD, out=trained.path.parent / "node", readings=True)
        files = {records.NAME: (read.path / records.NAME).read_bytes()}
        here = {"path": trained.path}
        again = self.result(read.model_copy(update=here | {"already_there": True}), files)
        assert again.readings is None, "what a node has not trained leaves ours alone"
        assert self.result(read.model_copy(update=here), files).readings == read.readings
        assert records.read(trained.path / records.NAME).readings == read.readings
        assert not self.events

    def test_different_results_of_a_node_leave_the_earlier_record_and_nothing_else(self, trained):
        files = {records.NAME: (trained.path / records.NAME).read_bytes()}
        earlier = as_another_machine_would(trained)
        for name in ("map-phi.json", "model.safetensors"):
            (trained.path / name).write_text("{}")
        assert self.result(trained, files).accuracy == trained.accuracy
        assert records.read(trained.path / FIRST).accuracy == earlier.accuracy
        assert not [*trained.path.glob("map-*"), *trained.path.glob("*.safetensors")]
        (event,) = self.events
        assert "trained again with different results" in event["text"]

    def test_a_reading_comes_back_as_that_reading(self, tmp_path):
        record = run(SGD.model_copy(update={"correct": "wa-eval"}), out=tmp_path)
        files = {records.NAME: (record.path / records.NAME).read_bytes()}
        assert self.result(record, files).accuracy == record.accuracy
        assert self.result(record, files).config == record.config


def test_a_record_is_never_replaced_by_one_with_different_bits(tmp_path, trained):
    first = as_another_machine_would(trained)
    second = run(SGD, out=tmp_path, force=True)
    third = as_another_machine_would(first)
    again = run(SGD, out=tmp_path, force=True)
    assert again.digest == second.digest
    kept = [record.accuracy for _, record in records.earlier_trainings(trained.path)]
    assert kept == [first.accuracy, third.accuracy]


def test_the_first_training_counts_and_later_ones_add_what_it_did_not_measure(tmp_path, trained):
    first = as_another_machine_would(trained)
    run(SGD, out=tmp_path, probe="phi", readings=True)
    counted, *readings = sorted(load_records(tmp_path), key=lambda r: r.config.correct != "none")
    assert counted.accuracy == first.accuracy
    assert counted.phi.acc == trained.acc != first.acc
    (again,) = counted.trained_again
    assert again.accuracy == trained.accuracy
    assert readings


def test_a_damaged_first_training_does_not_hand_its_place_to_a_later_one(tmp_path, trained):
    as_another_machine_would(trained)
    run(SGD, out=tmp_path, force=True)
    first = trained.path / FIRST
    first.write_bytes(first.read_bytes()[:-9])
    with pytest.raises(UserError, match=f"{FIRST} is not a valid run record"):
        load_records(tmp_path)


def test_what_was_left_by_a_kill_after_the_record_goes_with_the_next_call(tmp_path, trained):
    files = {path.name for path in trained.path.iterdir()}
    for name in (NEWEST, BEFORE, "lock", ".checkpoint.before.0123abcd.partial"):
        (trained.path / name).touch()
    assert run(SGD, out=tmp_path).already_there
    assert {path.name for path in trained.path.iterdir()} == files


def test_a_run_that_is_forced_and_comes_out_the_same_leaves_one_record(tmp_path, trained):
    run(SGD, out=tmp_path, force=True)
    assert [p.name for p in trained.path.glob("record*")] == [records.NAME]
