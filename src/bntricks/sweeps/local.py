"""Many runs on one machine: processes side by side, one thread each, results as they come.

Workers add processes, never threads, so a run's bits do not depend on how many run beside it. A
run that fails does not take the others with it. Nor does a worker that is killed, as the system
does when memory is short: a new one continues its run from the last checkpoint.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NoReturn

from bntricks.errors import PlannedError, RunError
from bntricks.plugins.imports import Code, loaded, own_fault
from bntricks.runs.config import Config
from bntricks.runs.record import Record
from bntricks.runs.request import Request
from bntricks.sweeps.once import Training, each_once, finished
from bntricks.sweeps.places import available_cores, settle
from bntricks.sweeps.queue import Failure as Failure, Turns, failure, take_turns
from bntricks.system.stopping import REQUESTS
from bntricks.training.events import Event, Sink, silent

DEATHS = 3
"""How often a worker may die at the same run before that run has failed."""
PATIENCE = 60.0
"""Seconds that workers have to reach a checkpoint when they are asked to stop."""
Shared = Request
"""As it was called until 0.3."""


def sweep(
    configs: Sequence[Config],
    shared: Request = Request(),  # noqa: B008 (frozen)
    *,
    workers: int | None = None,
    turns: Turns = Turns(),  # noqa: B008 (frozen)
    sink: Sink = silent,
) -> list[Record | Failure]:
    """Train these runs and return their records, in order. The sink gets every run's events with
    its index. Equivalent runs are trained once; runs that another process trains are awaited."""

    def train(once: Sequence[Training], shared: Request, sink: Sink) -> list[Record | Failure]:
        count = workers or default_workers([each.config for each in once])
        places = turns.places or ("",) * count
        return _side_by_side(once, shared, replace(turns, places=places[: len(once)]), sink)

    return each_once(configs, shared, train, sink)


def _side_by_side(
    trainings: Sequence[Training], shared: Request, turns: Turns, sink: Sink
) -> list[Record | Failure]:
    return take_turns(trainings, _Workers(trainings, shared, turns.places), shared, turns, sink)


@dataclass(slots=True)
class _Worker:
    """A process that trains one run after another, and its current run."""

    process: SpawnProcess
    connection: Connection[Any, Any]
    place: str
    run: int | None = None
    heard: bool = False

    @classmethod
    def start(cls, shared: Request, place: str) -> _Worker:
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_work, args=(theirs, shared, loaded(), place))
        process.start()
        theirs.close()  # so that the connection ends with the process
        return cls(process, ours, place)

    def end(self) -> str:
        """Say how the process ended."""
        self.connection.close()
        self.process.join()
        code = self.process.exitcode or 0
        if code >= 0 and not self.heard:
            raise RunError(
                f"a process to train in did not start (exit code {code}); a script must call this "
                'under `if __name__ == "__main__":`'
            )
        return f"ended with exit code {code}" if code >= 0 else f"was killed (signal {-code})"


@dataclass(slots=True)
class _Workers:
    """A worker for each place, started when there is a run for it, and again when it dies."""

    trainings: Sequence[Training]
    shared: Request
    places: Sequence[str]
    crew: list[_Worker] = field(default_factory=list)
    deaths: Counter[int] = field(default_factory=Counter)

    def has_room(self) -> bool:
        return len(self.crew) < len(self.places) or any(each.run is None for each in self.crew)

    def begin(self, run: int) -> None:
        worker = next((each for each in self.crew if each.run is None), None)
        if worker is None:
            worker = _Worker.start(self.shared, self.places[len(self.crew)])
            self.crew.append(worker)
        self._give(worker, run)

    def _give(self, worker: _Worker, run: int) -> None:
        worker.run = run
        with suppress(BrokenPipeError):  # it died meanwhile, which its next message says
            worker.connection.send(self.trainings[run])

    def hear(self, seconds: float) -> Iterator[tuple[int, Event | Record | Failure]]:
        if not self.crew:
            time.sleep(seconds)
        by_connection = {worker.connection: worker for worker in self.crew}
        for connection in wait(list(by_connection), seconds):
            worker = by_connection[connection]  # type: ignore[index]
            run = worker.run
            try:
                message = worker.connection.recv()
            except (EOFError, OSError):
                reason = worker.end()
                again = _Worker.start(self.shared, worker.place)
                self.crew[self.crew.index(worker)] = again
                if run is not None:
                    yield run, self._died(run, reason, again)
                continue
            worker.heard = True
            assert run is not None
            if not isinstance(message, dict):
                worker.run = None
            yield run, message

    def _died(self, run: int, reason: str, again: _Worker) -> Event | Failure:
        """Continue a run whose process has died in a new one, unless it died too often."""
        self.deaths[run] += 1
        if self.deaths[run] == DEATHS:
            text = f"its process {reason} {DEATHS} times; if memory is short, run fewer at the same"
            return Failure(self.trainings[run].config, RunError(f"{text} time"))
        self._give(again, run)
        text = f"its process {reason}; a new process continues the run"
        return {"event": "warning", "text": text}

    def stop(self) -> None:
        """Dismiss idle workers; the others stop between two steps, at a checkpoint."""
        for worker in self.crew:
            worker.connection.close() if worker.run is None else worker.process.terminate()
        deadline = time.monotonic() + PATIENCE
        for worker in self.crew:
            worker.process.join(max(0.0, deadline - time.monotonic()))


def _work(
    connection: Connection[Any, Any], shared: Request, imports: tuple[Code, ...], place: str
) -> None:
    """Train what arrives, in a worker, until nothing more does."""
    settle(place)
    follow_parent()
    stopped: list[int] = []

    def stop(number: int, frame: object) -> NoReturn:
        stopped.append(number)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, stop)  # which a run postpones until its checkpoint
    while True:
        try:
            training = connection.recv()
        except EOFError:
            return
        try:
            outcome: Record | Failure = train_one(training, shared, imports, connection.send)
        except BaseException as error:
            if stopped:
                return
            outcome = failure(training.config, error)
        connection.send(outcome)


def train_one(training: Training, shared: Request, imports: Sequence[Code], sink: Sink) -> Record:
    """Train one run of a sweep, in a process that imports the user's files first."""
    for code in imports:
        code.load()
    # torch is imported where work is done, not by the parent.
    from bntricks.runs.folder import run

    readings = shared.readings or training.readings
    try:
        record = run(training.config, shared.model_copy(update={"readings": readings}), sink=sink)
        sink(finished(record))
        return record
    except Exception as error:
        fault = None if isinstance(error, PlannedError) else own_fault(error)
        if fault is None:
            raise
        raise RunError(fault) from error


def default_workers(configs: Sequence[Config]) -> int:
    """Count one process for each core, or for each GPU of the runs."""
    gpus = {config.device for config in configs} - {"cpu"}
    return len(gpus) or available_cores()


def follow_parent() -> None:
    """Ignore Ctrl-C and a closed terminal, which the parent handles, and exit when the parent is
    killed, whose runs' locks would be held otherwise. Exit at once when done: tearing down torch
    would keep the parent waiting."""
    for request in set(REQUESTS) - {signal.SIGTERM}:
        signal.signal(request, signal.SIG_IGN)
    atexit.register(os._exit, 0)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
