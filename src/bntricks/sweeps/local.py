"""Many runs on one machine: processes side by side, one thread each, results as they come.

Workers add processes, never threads, so a run's bits do not depend on how many run beside it. A
run that fails does not take the others with it.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from multiprocessing.managers import SyncManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bntricks.errors import PlannedError
from bntricks.runs.config import Config
from bntricks.runs.record import Record

if TYPE_CHECKING:
    from bntricks.training.progress import Sink


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that did not finish, and why."""

    config: Config
    reason: str


@dataclass(frozen=True, slots=True)
class Shared:
    """What all runs of a sweep have in common."""

    data: Path | None = None
    out: Path = Path("runs")
    force: bool = False
    probe: str | None = None
    keep_network: bool = False
    checkpoint_seconds: float = 120.0

    def run(self, config: Config, sink: Sink) -> Record:
        """One run of the sweep, in whatever process this is."""
        # torch is imported where work is done, not by the parent.
        from bntricks.runs.folder import run

        record = run(config, **{f.name: getattr(self, f.name) for f in fields(self)}, sink=sink)
        summary = {"acc": record.acc, "bwt": record.bwt, "already_there": record.already_there}
        sink({"event": "finished", **summary})
        return record


def sweep(
    configs: Sequence[Config],
    shared: Shared = Shared(),  # noqa: B008 (frozen)
    *,
    workers: int | None = None,
    sink: Sink = lambda event: None,
) -> list[Record | Failure]:
    """The records of these runs, in order. The sink gets every run's events with its index."""
    count = min(workers or available_cores(), len(configs))
    spawn = multiprocessing.get_context("spawn")
    manager = SyncManager(ctx=spawn)
    manager.start(initializer=follow_parent)
    with (
        manager,
        ProcessPoolExecutor(count, mp_context=spawn, initializer=follow_parent) as pool,
    ):
        events: queue.Queue[dict[str, Any]] = manager.Queue()
        futures = [
            pool.submit(_run, index, config, shared, events) for index, config in enumerate(configs)
        ]
        try:
            while not all(future.done() for future in futures):
                _pass_on(events, sink, wait=0.2)
            _pass_on(events, sink, wait=0)
        except BaseException:
            for process in list(pool._processes.values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [
        failure(config, error) if (error := future.exception()) else future.result()
        for future, config in zip(futures, configs, strict=True)
    ]


def failure(config: Config, error: BaseException) -> Failure:
    """A run that did not finish, with the reason in one line."""
    if isinstance(error, PlannedError):
        return Failure(config, str(error))
    return Failure(config, f"{type(error).__name__}: {error}")


def available_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(index: int, config: Config, shared: Shared, events: queue.Queue[dict[str, Any]]) -> Record:
    return shared.run(config, lambda event: events.put({"run": index, **event}))


def _pass_on(events: queue.Queue[dict[str, Any]], sink: Sink, *, wait: float) -> None:
    try:
        sink(events.get(timeout=wait) if wait else events.get_nowait())
        while True:
            sink(events.get_nowait())
    except queue.Empty:
        return


def follow_parent() -> None:
    """Ctrl-C reaches the whole group, and the parent alone answers it. A parent that is killed
    takes its workers with it: without it, they would hold the locks of their runs. A worker that is
    done exits at once: tearing down torch would keep its parent waiting for a second."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit.register(os._exit, 0)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
