"""The runs of a sweep on a Ray cluster: one Ray task each, retried elsewhere if its node is lost.

A run writes to the same folder wherever it works. On storage that all nodes share, one that moves
to another node continues from its last checkpoint; without it, it starts over there, and its files
are collected when it is done. Bits are those of a local sweep either way.
"""

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from bntricks.errors import RunError, UserError, extra
from bntricks.files import commit
from bntricks.plugins.imports import Code, loaded
from bntricks.runs.config import Config
from bntricks.runs.readings import name_of
from bntricks.runs.record import Record, file as records
from bntricks.runs.record.file import NAME
from bntricks.runs.request import Request
from bntricks.sweeps.local import train_one
from bntricks.sweeps.once import Training, each_once
from bntricks.sweeps.queue import Failure, Turns, failure, take_turns
from bntricks.system.stopping import REQUESTS
from bntricks.training.events import Event, Sink, silent, warning

CONNECT_SECONDS = 10.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")
SILENCE_SECONDS = 5.0
"""How long the head may be out of reach before the cluster is taken for lost. Ray itself would wait
for a minute, and then end the process."""
BROUGHT = ("*.json", "log.csv", "model*.safetensors")
"""What comes back from a node with storage of its own: the record, what it was made from, and what
was asked for beside it."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, and the resources that a run needs; fractions share a device."""

    address: str = "auto"
    cpus: float = 1.0
    gpus: float = 0.0


def sweep_on_ray(
    configs: Sequence[Config],
    shared: Request,
    cluster: Cluster,
    sink: Sink = silent,
    *,
    turns: Turns = Turns(),  # noqa: B008 (frozen)
) -> list[Record | Failure]:
    """Train runs as `sweep` does, on the cluster at this address, which must exist."""
    quiet: Any = _Quiet(sys.stderr)  # also of what Ray prints to stdout, where JSON may be read
    with redirect_stdout(quiet), redirect_stderr(quiet):
        return each_once(configs, shared, partial(_sweep, cluster, turns), sink)


def _sweep(
    cluster: Cluster, turns: Turns, trainings: Sequence[Training], shared: Request, sink: Sink
) -> list[Record | Failure]:
    tasks = _Tasks(_connect(cluster.address), cluster, trainings, shared, sink)
    return take_turns(trainings, tasks, shared, turns, sink)


class _Tasks:
    """The runs of a sweep as tasks of a cluster, which decides when each begins."""

    def __init__(
        self,
        ray: Any,
        cluster: Cluster,
        trainings: Sequence[Training],
        shared: Request,
        sink: Sink,
    ) -> None:
        context = ray.get_runtime_context()
        # The mailbox stays on this node: no other node that is lost takes it away.
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            context.get_node_id(), soft=False
        )
        self.ray, self.trainings, self.sink = ray, trainings, sink
        self.shared = shared.model_copy(update={"out": shared.out.absolute()})
        self.head, self.heard = context.gcs_address, time.monotonic()
        self.mailbox = ray.remote(num_cpus=0, scheduling_strategy=here)(Mailbox).remote()
        self.task = ray.remote(num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_retries=-1)(_run)
        self.under_way: dict[Any, int] = {}

    def has_room(self) -> bool:
        return True

    def begin(self, run: int) -> None:
        training, config = self.trainings[run], self.trainings[run].config
        named = self.task.options(name=f"{config.method} {config.seed}")
        reference = named.remote(run, training, self.shared, loaded(), self.mailbox)
        self.under_way[reference] = run

    def hear(self, seconds: float) -> Iterator[tuple[int, Event | Record | Failure]]:
        if not self.under_way:
            time.sleep(seconds)
            return
        done, _ = self.ray.wait(list(self.under_way), num_returns=1, timeout=seconds)
        if not _listens(self.head):
            if time.monotonic() - self.heard > SILENCE_SECONDS:
                raise RunError(
                    f"the Ray cluster at {self.head} is lost: start it again, and repeat the "
                    "command; finished runs are kept, and the others continue from their "
                    "checkpoints"
                )
            return
        self.heard = time.monotonic()
        for reference in done:
            run = self.under_way.pop(reference)
            yield run, _result(self.ray, reference, run, self.trainings[run].config, self.sink)
        for event in _events(self.ray, self.mailbox):
            yield event["run"], event

    def stop(self) -> None:
        """Leave the cluster, which also ends the runs that are still under way."""
        self.ray.shutdown()


def _events(ray: Any, mailbox: Any) -> list[Event]:
    """Return new events; none if the mailbox does not answer, as its node may be on its way out."""
    try:
        return list(ray.get(mailbox.empty.remote(), timeout=SILENCE_SECONDS))
    except ray.exceptions.RayError:
        return []


class _Quiet:
    """A stream without Ray's own notes of lost nodes, with a line of ours in their place."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.in_note = stream, False

    def write(self, text: str) -> int:
        if "(raylet" in text:
            self.in_note = not text.endswith("\n")
            if "marked dead" in text:
                self.stream.write("bnt: a node of the cluster is lost; its runs go on elsewhere\n")
        elif self.in_note:  # the end of its line, which is written apart
            self.in_note = "\n" not in text
        else:
            self.stream.write(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Mailbox:
    """The events of all runs, until they are fetched."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def put(self, event: Event) -> None:
        self.events.append(event)

    def empty(self) -> list[Event]:
        events, self.events = self.events, []
        return events


def _run(
    index: int, training: Training, shared: Request, imports: tuple[Code, ...], mailbox: Any
) -> tuple[Record, dict[str, bytes]]:
    """Train a run on a node, and return the record and the files beside it."""

    def send(event: Event) -> None:
        mailbox.put.remote(event | {"run": index})

    record = train_one(training, shared, imports, send)
    folder = _folder(record)
    return record, {path.name: path.read_bytes() for path in _brought(folder)}


def _result(ray: Any, reference: Any, index: int, config: Config, sink: Sink) -> Record | Failure:
    try:
        record, files = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return failure(config, error.cause)
    except ray.exceptions.RayError as error:
        return failure(config, RunError(f"the cluster lost this run: {str(error).splitlines()[0]}"))
    try:
        trained = _collect(record, files, warning(lambda event: sink(event | {"run": index})))
    except UserError as error:
        return failure(config, error)
    reading = None if trained.config == record.config else name_of(record.config)
    trained = trained.model_copy(update={"already_there": record.already_there})
    return trained.read_as(reading)


def _collect(record: Record, files: Mapping[str, bytes], warn: Callable[[str], None]) -> Record:
    """Put the files of a run in place, if its node has storage of its own, and return the record. A
    node's own training counts more than what was here."""
    folder = _folder(record)
    theirs = records.parsed(files[NAME], folder / NAME)
    ours = records.load(folder, warn=lambda text: None)
    if ours is not None and record.already_there:
        if ours.accuracy == theirs.accuracy:
            _write({n: files[n] for n in files if not (folder / n).exists()}, folder)
        return ours
    replaced = records.replaced_by(theirs, folder)
    if replaced is not None:
        records.set_aside(folder)
        kept = {path for path, _ in records.earlier_trainings(folder)}
        for path in {*_brought(folder)} - kept:  # beside another record these would be of no run
            path.unlink()
        warn(records.replacement(replaced, theirs, folder))
    _write(files, folder)
    return records.read(folder / NAME)


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    """Write missing files, as storage may be shared, and the record last."""
    folder.mkdir(parents=True, exist_ok=True)
    places = {folder / name: files[name] for name in sorted(files, key=NAME.__eq__)}
    commit({p: new for p, new in places.items() if not p.is_file() or p.read_bytes() != new})


def _brought(folder: Path) -> list[Path]:
    return [path for pattern in BROUGHT for path in folder.glob(pattern)]


def _folder(record: Record) -> Path:
    assert record.path is not None
    return record.path


def _connect(address: str) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    host, port = _place(address)
    if host in LOOPBACK and not _listens(f"127.0.0.2:{port}"):  # which a head on all addresses does
        # Then this process listens on the loopback address only, too.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    with extra(option="ray"):  # which every machine needs
        import ray
        import ray.util.scheduling_strategies
    try:
        _check_listening(address)
        with _own_signals():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{str(error).splitlines()[0]}; start a cluster with `ray start`, or give the address "
            "of one",
            option="ray",
            value=address,
        ) from None
    return ray


@contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the handlers that Ray replaces, which print a stack dump."""
    handlers = {number: signal.getsignal(number) for number in REQUESTS}
    yield
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _listens(address: str) -> bool:
    try:
        _check_listening(address)
    except OSError:
        return False
    return True


def _check_listening(address: str) -> None:
    """Raise an error at once if nothing listens: Ray itself goes on trying for minutes."""
    host, port = _place(address)
    if port is not None:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()


def _place(address: str) -> tuple[str, int | None]:
    """Return host and port of a cluster, as Ray resolves its address."""
    if address == "auto":  # a killed head leaves its address behind
        last = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
        address = os.environ.get("RAY_ADDRESS") or (last.read_text() if last.exists() else "")
    host, _, port = address.strip().removeprefix("ray://").rpartition(":")
    return host.strip("[]"), int(port) if host and port.isdecimal() else None
