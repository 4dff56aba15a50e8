"""What loggers get: the same numbers, wherever they go, and nothing over a network unasked."""

import csv
import json
import sys
from types import SimpleNamespace

import pytest

from bntricks.errors import UserError
from bntricks.runs.config import Config
from bntricks.runs.folder import run
from bntricks.runs.loggers import CSV, LOGGERS, logging, numbers

CONFIG = Config(
    method="er-bnt", stream="seq-digits", width=2, blocks=1, stages=2, images_per_class=8, epochs=2
)


class Wandb:
    """What is handed to the package, without the package."""

    def __init__(self):
        self.asked, self.logged, self.finished = {}, [], False
        self.Settings = SimpleNamespace

    def init(self, **asked):
        self.asked = asked
        return self

    def log(self, values, step):
        self.logged.append((step, values))

    def finish(self):
        self.finished = True


def test_csv_and_weights_and_biases_get_the_same_numbers_which_are_those_of_the_log(
    tmp_path, monkeypatch
):
    package = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", package)
    record = run(CONFIG, out=tmp_path, log=["csv", "wandb", "csv"], epoch_accuracy=True)
    rows = list(csv.DictReader((record.path / "log.csv").open()))
    flat = [(str(step), n, str(v)) for step, values in package.logged for n, v in values.items()]
    assert [tuple(row.values()) for row in rows] == flat
    assert package.finished
    assert package.asked["mode"] == "offline"
    assert package.asked["id"] == record.path.name
    told = {row["name"]: float(row["value"]) for row in rows}
    assert told["acc"] == record.acc
    assert told["accuracy/task 1"] == record.accuracy[-1][0]
    assert told["epoch accuracy/task 5"] == record.accuracy[-1][4]
    log = [json.loads(line) for line in (record.path / "log.jsonl").open()]
    losses = [float(row["value"]) for row in rows if row["name"] == "loss"]
    assert set(losses) >= {event["loss"] for event in log if event["event"] == "epoch"}


def test_no_number_is_written_twice(tmp_path):
    with logging(["csv"], tmp_path, Config()) as log:
        for kind in ("progress", "epoch"):
            log({"event": kind, "step": 9, "loss": 0.5})
        log({"event": "progress", "step": 10, "loss": 0.5})
    rows = (tmp_path / CSV).read_text().splitlines()
    assert rows == ["step,name,value", "9,loss,0.5", "10,loss,0.5"]


def test_what_is_not_finite_or_not_measured_is_left_out():
    event = {"event": "task", "accuracy": [50.0, None], "phi_drift": {"bn": 0.5}}
    assert numbers(event) == {"accuracy/task 1": 50.0, "phi drift/bn": 0.5}
    assert numbers({"event": "begin"}) == {}


def test_an_unknown_logger_and_a_missing_package_are_said_before_any_work(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"unknown logger 'cvs': did you mean csv\?"):
        run(CONFIG, out=tmp_path, log=["cvs"])
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"pip install 'bntricks\[wandb\]'"):
        run(CONFIG, out=tmp_path, log=["wandb"])
    assert list(tmp_path.iterdir()) == []


def test_a_logger_of_ones_own_is_found_by_its_name(tmp_path, monkeypatch):
    from contextlib import contextmanager

    steps = []

    @contextmanager
    def own(folder, config):
        yield lambda step, values: steps.append(step)

    monkeypatch.setitem(LOGGERS._entries, "own", own)
    record = run(CONFIG, out=tmp_path, log=["own"])
    assert steps[-1] == record.steps
