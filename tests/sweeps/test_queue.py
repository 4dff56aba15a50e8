"""The folder of records as a queue: runs that others hold come back, failures are shared, and a
command leaves when it should."""

import time

import pytest

from bntricks.errors import HeldError, LeftToOthers, RunError, UnfinishedError
from bntricks.files import pack_json
from bntricks.runs.config import Config
from bntricks.runs.request import Request
from bntricks.sweeps import queue
from bntricks.sweeps.once import Training
from bntricks.sweeps.queue import Failure, Turns, failures, key_of, take_turns
from helpers.records import a_run

pytestmark = pytest.mark.fault

RUNS = [Training(Config(method="er", seed=seed), readings=False) for seed in range(3)]


class Crew:
    """One worker, without a process: `held` says how often each run is held by somebody else."""

    def __init__(self, held=(), failing=()):
        self.held, self.failing = dict(held), failing
        self.begun, self.current, self.stopped = [], None, False

    def has_room(self):
        return self.current is None

    def begin(self, run):
        self.begun.append(run)
        self.current = run

    def hear(self, seconds):
        if (run := self.current) is None:
            return
        self.current = None
        config = RUNS[run].config
        if self.held.get(run):
            self.held[run] -= 1
            yield run, Failure(config, HeldError("somebody trains it"))
        elif run in self.failing:
            yield run, Failure(config, RunError("the loss was not finite"))
        else:
            yield run, a_run("er", run)

    def stop(self):
        self.stopped = True


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(queue, "RETRY_SECONDS", 0.0)


def turns(tmp_path, crew, events=None, **how):
    sink = (lambda event: None) if events is None else events.append
    return take_turns(RUNS, crew, Request(out=tmp_path), Turns(**how), sink)


def test_held_runs_are_skipped_and_come_back_in_turn(tmp_path):
    crew, events = Crew(held={0: 2}), []
    results = turns(tmp_path, crew, events)
    assert [result.seed for result in results] == [0, 1, 2]
    assert crew.begun == [0, 1, 2, 0, 0]
    assert [event["run"] for event in events if event["event"] == "held"] == [0]
    assert crew.stopped
    assert not list(tmp_path.iterdir())


def test_whoever_does_not_wait_leaves_once_others_hold_all_that_is_left(tmp_path):
    crew = Crew(held={1: 99})
    with pytest.raises(LeftToOthers, match="1 run"):
        turns(tmp_path, crew, leave=True)
    assert crew.begun[:3] == [0, 1, 2]
    assert crew.stopped


def test_a_time_limit_stops_the_crew(tmp_path):
    crew = Crew(held={2: 10**6})
    with pytest.raises(UnfinishedError, match="1 run"):
        turns(tmp_path, crew, until=time.monotonic() + 0.1)
    assert crew.stopped
    with pytest.raises(UnfinishedError, match="3 runs"):
        turns(tmp_path, crew, until=time.monotonic())


def noted(tmp_path, run, when, process="elsewhere, process 1"):
    (tmp_path / queue.FOLDER).mkdir(exist_ok=True)
    path = tmp_path / queue.FOLDER / f"failed-{key_of(RUNS[run].config)}.json"
    path.write_bytes(pack_json({"error": "no memory", "time": when, "process": process}))
    return path


def test_a_run_that_failed_elsewhere_meanwhile_is_not_tried_in_vain(tmp_path):
    noted(tmp_path, 1, time.time() + 60)
    crew = Crew()
    results = turns(tmp_path, crew)
    assert crew.begun == [0, 2]
    assert str(results[1].error) == "no memory (on elsewhere, process 1)"


def test_a_run_that_failed_before_is_tried_again_and_the_note_goes(tmp_path):
    path = noted(tmp_path, 1, time.time() - 60)
    crew = Crew(failing={2})
    results = turns(tmp_path, crew)
    assert crew.begun == [0, 1, 2]
    assert not isinstance(results[1], Failure)
    assert not path.exists()
    assert list(failures(tmp_path)) == [key_of(RUNS[2].config)]
    assert failures(tmp_path)[key_of(RUNS[2].config)]["error"] == "the loss was not finite"


def test_a_damaged_note_counts_as_none(tmp_path):
    noted(tmp_path, 1, time.time() + 60).write_text("{")
    assert len(turns(tmp_path, Crew())) == 3
