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
import threading
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from bntricks.errors import PlannedError, RunError
from bntricks.plugins.imports import Code, loaded, own_fault
from bntricks.runs.config import Config
from bntricks.runs.record import Record
from bntricks.runs.request import Request
from bntricks.sweeps.once import Training, each_once, finished
from bntricks.system.stopping import REQUESTS
from bntricks.training.events import Event, Sink, silent

DEATHS = 3
"""How often a worker may die at the same run before that run has failed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that did not finish, with the reason."""

    config: Config
    error: PlannedError


Shared = Request
"""As it was called until 0.3."""


def sweep(
    configs: Sequence[Config],
    shared: Request = Request(),  # noqa: B008 (frozen)
    *,
    workers: int | None = None,
    sink: Sink = silent,
) -> list[Record | Failure]:
    """Train these runs and return their records, in order. The sink gets every run's events with
    its index. Equivalent runs are trained once."""

    def train(once: Sequence[Training], shared: Request, sink: Sink) -> list[Record | Failure]:
        count = workers or default_workers([each.config for each in once])
        return _side_by_side(once, shared, count, sink)

    return each_once(configs, shared, train, sink)


def _side_by_side(
    trainings: Sequence[Training], shared: Request, workers: int, sink: Sink
) -> list[Record | Failure]:
    waiting = deque(range(len(trainings)))
    results: dict[int, Record | Failure] = {}
    deaths: Counter[int] = Counter()
    crew: dict[Any, _Worker] = {}
    try:
        while waiting or crew:
            while waiting and len(crew) < workers:
                worker = _Worker.start(shared)
                crew[worker.connection] = worker
                worker.begin(waiting.popleft(), trainings)
            for connection in wait(list(crew)):
                worker = crew[connection]
                run, message = worker.run, worker.message()
                if isinstance(message, dict):
                    sink(message | {"run": run})
                    continue
                if message is not None:
                    results[run] = message
                    if waiting:
                        worker.begin(waiting.popleft(), trainings)
                        continue
                else:
                    deaths[run] += 1
                    reason = worker.end()
                    if deaths[run] == DEATHS:
                        text = f"its process {reason} {DEATHS} times; if memory is short, run fewer"
                        error = RunError(f"{text} at the same time")
                        results[run] = Failure(trainings[run].config, error)
                    else:
                        waiting.appendleft(run)
                        text = f"its process {reason}; a new process continues the run"
                        sink({"run": run, "event": "warning", "text": text})
                crew.pop(connection).dismiss()
    except BaseException:
        for worker in crew.values():
            worker.process.terminate()
        raise
    return [results[run] for run in range(len(trainings))]


@dataclass(slots=True)
class _Worker:
    """A process that trains one run after another, and its current run."""

    process: SpawnProcess
    connection: Connection[Any, Any]
    run: int = -1
    heard: bool = False

    @classmethod
    def start(cls, shared: Request) -> _Worker:
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_work, args=(theirs, shared, loaded()))
        process.start()
        theirs.close()  # so that the connection ends with the process
        return cls(process, ours)

    def begin(self, run: int, trainings: Sequence[Training]) -> None:
        self.run = run
        with suppress(BrokenPipeError):  # it died meanwhile, which its next message says
            self.connection.send(trainings[run])

    def message(self) -> Event | Record | Failure | None:
        """Return an event or the outcome of the run; None if the process has died."""
        try:
            message: Event | Record | Failure = self.connection.recv()
        except (EOFError, OSError):
            return None
        self.heard = True
        return message

    def end(self) -> str:
        """Say how the process ended."""
        self.process.join()
        code = self.process.exitcode or 0
        if code >= 0 and not self.heard:
            raise RunError(
                f"a process to train in did not start (exit code {code}); a script must call this "
                'under `if __name__ == "__main__":`'
            )
        return f"ended with exit code {code}" if code >= 0 else f"was killed (signal {-code})"

    def dismiss(self) -> None:
        self.connection.close()
        self.process.join()


def _work(connection: Connection[Any, Any], shared: Request, imports: tuple[Code, ...]) -> None:
    """Train what arrives, in a worker, until nothing more does."""
    follow_parent()
    while True:
        try:
            training = connection.recv()
        except EOFError:
            return
        try:
            outcome: Record | Failure = train_one(training, shared, imports, connection.send)
        except BaseException as error:
            outcome = failure(training.config, error)
        connection.send(outcome)


def failure(config: Config, error: BaseException) -> Failure:
    """Make a failure with its reason in one line."""
    if not isinstance(error, PlannedError):
        error = RunError(f"{type(error).__name__}: {error}")
    return Failure(config, error)


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


def available_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
