"""The folder of records is the queue: any number of commands, here or on other machines, take runs
of it that nobody holds.

Who trains a run holds the lock of its folder, which dies with its process. A held run comes back
later: it is there by then, or its holder is dead. What has failed is noted, so that the others do
not try it in vain; a later command does.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Protocol

from bntricks.errors import (
    HeldError,
    LeftToOthers,
    PlannedError,
    RunError,
    UnfinishedError,
    counted,
)
from bntricks.files import commit, pack_json, text_bytes, unpack_json
from bntricks.runs.config import Config
from bntricks.runs.record import Record
from bntricks.runs.request import Request
from bntricks.sweeps.once import Training
from bntricks.system.stopping import postponed, process
from bntricks.training.events import Event, Sink

FOLDER = "queue"
"""Beside the runs: the plans of studies, and notes of what has failed."""
POLL_SECONDS, RETRY_SECONDS = 0.3, 2.0
"""How long to wait for news of runs, and before a held one is tried again."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that did not finish, with the reason."""

    config: Config
    error: PlannedError


@dataclass(frozen=True, slots=True)
class Turns:
    """How a command shares its runs with others, and when it leaves."""

    places: tuple[str, ...] = ()
    """Where each worker computes: `cuda:1`, a core such as `cpu:3`, or "" for anywhere."""
    until: float | None = None
    """The time, by the monotonic clock, at which the runs under way stop at a checkpoint."""
    leave: bool = False
    """Whether to leave once others hold all runs that are left, rather than wait for them."""


class Crew(Protocol):
    """Processes that train runs, on this machine or on a cluster."""

    def has_room(self) -> bool:
        """Whether it can begin another run now."""

    def begin(self, run: int) -> None:
        """Begin the training with this number."""

    def hear(self, seconds: float) -> Iterator[tuple[int, Event | Record | Failure]]:
        """Yield what has happened to runs, after waiting this long at most."""

    def stop(self) -> None:
        """End all runs under way, each at a checkpoint if there is time for it."""


def take_turns(
    trainings: Sequence[Training], crew: Crew, shared: Request, turns: Turns, sink: Sink
) -> list[Record | Failure]:
    """Return the results of all trainings, whoever trained them. Requests to stop end the runs
    first."""
    results: dict[int, Record | Failure] = {}
    waiting, active, began = deque(range(len(trainings))), set[int](), time.time()
    held, last_result = dict[int, float](), 0.0
    """When each held run was tried, and when a run of ours was done."""
    with postponed() as asked_to_stop:
        try:
            while len(results) < len(trainings) and not asked_to_stop():
                number = len(trainings) - len(results)
                left = counted(number, "run")
                if turns.until is not None and time.monotonic() >= turns.until:
                    raise UnfinishedError(f"the time limit has come with {left} unfinished")
                tried_since = len(held) == number and min(held.values()) >= last_result
                if turns.leave and not active and tried_since:
                    raise LeftToOthers(f"other processes hold the {left} that are left")
                for _ in range(len(waiting)):
                    run = waiting.popleft()
                    if (failed := _failed(shared, trainings[run], began)) is not None:
                        results[run] = failed
                        held.pop(run, None)
                    elif (
                        not crew.has_room()
                        or time.monotonic() - held.get(run, -inf) < RETRY_SECONDS
                    ):
                        waiting.append(run)
                    else:
                        crew.begin(run)
                        active.add(run)
                for run, message in crew.hear(POLL_SECONDS):
                    if isinstance(message, dict):
                        sink(message | {"run": run})
                        continue
                    active.discard(run)
                    if isinstance(message, Failure) and isinstance(message.error, HeldError):
                        if run not in held:
                            sink({"run": run, "event": "held"})
                        held[run] = time.monotonic()
                        waiting.append(run)
                        continue
                    held.pop(run, None)
                    results[run], last_result = message, time.monotonic()
                    _note(shared, trainings[run], message)
        finally:
            crew.stop()
    return [results[run] for run in range(len(trainings))]


def failure(config: Config, error: BaseException) -> Failure:
    """Make a failure with its reason in one line."""
    if not isinstance(error, PlannedError):
        error = RunError(f"{type(error).__name__}: {error}")
    return Failure(config, error)


def key_of(config: Config) -> str:
    """Name a training before its data is opened."""
    return config.identity("")


def failures(out: Path) -> dict[str, dict[str, Any]]:
    """Load the notes of trainings that have failed in this folder, by their keys."""
    paths = (out / FOLDER).glob("failed-*.json")
    return {path.stem.removeprefix("failed-"): note for path in paths if (note := read(path))}


def _failed(shared: Request, training: Training, since: float) -> Failure | None:
    """Return the failure of a training that another process has noted since then."""
    note = read(_place(shared, training))
    if note is None or note["time"] < since or note["process"] == process():
        return None
    return Failure(training.config, RunError(f"{note['error']} (on {note['process']})"))


def _note(shared: Request, training: Training, result: Record | Failure) -> None:
    """Note that a training has failed, or that it no longer has."""
    place = _place(shared, training)
    with suppress(OSError):
        if isinstance(result, Failure):
            note = {"error": str(result.error), "time": time.time(), "process": process()}
            place.parent.mkdir(parents=True, exist_ok=True)
            commit({place: pack_json(note)})
        else:
            place.unlink(missing_ok=True)


def _place(shared: Request, training: Training) -> Path:
    return shared.out / FOLDER / f"failed-{key_of(training.config)}.json"


def read(path: Path) -> dict[str, Any] | None:
    """Read what was written here; None if it is missing or damaged."""
    with suppress(OSError, ValueError):
        return unpack_json(text_bytes(path))
    return None
