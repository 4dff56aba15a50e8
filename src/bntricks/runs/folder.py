"""A run on disk: one folder, named by the run's identity, trained once.

The folder holds `run.json`, what was asked for, and `log.jsonl`, one line an event, from its start;
checkpoints while it is under way; and `record.json` when it is finished. A kernel lock keeps a
second process out.
"""

import errno
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bntricks.errors import HeldError, PlannedError, RunError, UserError, within_memory
from bntricks.files import (
    held,
    pack_json,
    remove_leftovers,
    text_bytes,
    unpack_json,
    write_atomically,
)
from bntricks.methods import same_recipe
from bntricks.networks.registry import check_named
from bntricks.runs import probes
from bntricks.runs.config import Config
from bntricks.runs.describe import describe, reset_peak_memory
from bntricks.runs.loggers import CSV, logging
from bntricks.runs.outputs import Outputs
from bntricks.runs.readings import name_of, trunk
from bntricks.runs.record import Record, file as records
from bntricks.runs.request import Request
from bntricks.runs.resolve import as_text, made_with, resolve
from bntricks.runs.train import train
from bntricks.streams import Stream
from bntricks.streams.registry import OPENERS
from bntricks.system.stopping import process
from bntricks.training.checkpoint import Checkpoints
from bntricks.training.distributed import Ranks, joined
from bntricks.training.events import Event, Sink, silent, warning

REQUEST = "run.json"
"""What was asked for, so that `resume` can ask for it again."""
LOG, LOCK = "log.jsonl", "lock"


def run(
    config: Config,
    request: Request | None = None,
    *,
    stream: Stream | None = None,
    sink: Sink = silent,
    **options: Any,
) -> Record:
    """Return the record of this run: from disk if it is there, else after training it on the stream
    that the configuration names, or on this `stream`. An interrupted run continues from its newest
    checkpoint, unless `force` starts it anew. If a finished one lacks its `probe`, its kept network
    or its `readings`, it is trained again, to the same bits where versions and machine are the
    same; if it lacks what `save` or `epoch_accuracy` request, only `force` does that. A reading of
    another run is read off that run. `options` are those of a `Request`, if none is given."""
    reset_peak_memory()
    request = Request.of(**options) if request is None else request
    resolved = resolve(config, request.data, sink, stream=stream, start=request.start)
    return _run(*resolved, request, sink)


def _run(
    stream: Stream, asked: Config, request: Request, sink: Sink, folder: Path | None = None
) -> Record:
    """Return the record of the run, which may lie in a folder that was renamed."""
    config = trunk(asked)
    reading = None if asked == config else name_of(asked)
    if reading is not None:
        request = request.model_copy(update={"readings": True})
    folder = folder or request.out / config.identity(stream.fingerprint)
    outputs = Outputs(request, config, stream, folder)
    probes.check(request.probe, stream)
    warn = warning(sink)
    with _writing_to(folder):
        checkpoints = Checkpoints(
            folder,
            made_with(config, stream),
            defaults=as_text(Config()),
            seconds=request.checkpoint_seconds,
            warn=warn,
        )
        record = None if request.force else finished(config, stream, folder, warn)
        if record is not None and outputs.there(record):
            outputs.check_there(record)
            if record.path != folder:
                folder.mkdir(parents=True, exist_ok=True)
                with held(folder, lock=folder / LOCK):
                    remove_leftovers(folder)
                    records.save(record, folder)
            _tidy(outputs, checkpoints, record)
            record = record.model_copy(update={"path": folder, "already_there": True})
            return record.read_as(reading)
        with joined(config.ranks, config.device) as ranks:
            if ranks.rank:
                record = _follow(outputs, checkpoints, ranks)
            else:
                record = _lead(outputs, checkpoints, ranks, sink)
    return record.model_copy(update={"path": folder}).read_as(reading)


def finished(
    config: Config, stream: Stream, folder: Path, warn: Callable[[str], None]
) -> Record | None:
    """Load the record of the run in this folder, if there is a valid one. A run beside it that was
    trained under another name of the same recipe has the same bits and counts too; its record says
    so."""
    for name in (config.method, *same_recipe(config.method, config.hyper)):
        renamed = config.model_copy(update={"method": name})
        own = name == config.method
        place = folder if own else folder.parent / renamed.identity(stream.fingerprint)
        record = records.load(place, warn)
        if record is None:
            continue
        if record.config != renamed or record.data.fingerprint != stream.fingerprint:
            raise UserError(
                f"the record in {record.path} is of another run: delete it, or train the run again",
                remedy="force",
            )
        if own:
            return record
        trained_as = record.trained_as or name
        return record.model_copy(update={"config": config, "trained_as": trained_as})
    return None


def resume(
    folder: Path | str,
    *,
    data: Path | str | None = None,
    net: str | None = None,
    stream: Stream | None = None,
    sink: Sink = silent,
    **how: Any,
) -> Record:
    """Continue the run in this folder; give `data` if the data has moved, and `stream` if the run
    was given one. If your own code builds the network, name it again with `net`: a file never
    decides which code is run."""
    reset_peak_memory()
    folder = Path(folder)
    if (asked := _asked(folder)) is None:
        raise UserError(
            f"{folder} holds no run ({REQUEST} is missing or damaged): give the folder of a run, "
            "or repeat the `bnt run` that made it"
        )
    config, request, name = asked
    check_named(config.net, net, folder / REQUEST)
    changed = {"data": data or request.data, "out": folder.parent, **how}
    request = Request.of(**(request.model_dump() | changed))
    if stream is None and config.stream not in OPENERS.entries() and not config.imports:
        raise UserError(
            f"the stream {config.stream} of this run was made in Python: give it again, by "
            "resume(folder, stream=…) or the run(…) that began it"
        )
    stream, resolved = resolve(config, request.data, sink, stream=stream, start=request.start)
    if (own := resolved.identity(stream.fingerprint)) != name:
        raise UserError(
            f"the run in {folder} is {name}, and with this data it would be {own}: give the folder "
            "that has its images",
            remedy="data",
        )
    return _run(stream, resolved, request, sink, folder)


def _lead(outputs: Outputs, checkpoints: Checkpoints, ranks: Ranks, sink: Sink) -> Record:
    """Train, alone or with other ranks that follow, and write all files."""
    request, config, folder = outputs.request, outputs.config, outputs.folder
    fresh = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder, lock=folder / LOCK):
        remove_leftovers(folder)
        if ranks.size == 1 and not request.force:
            record = finished(config, outputs.stream, folder, warn=lambda text: None)
            if record is not None and outputs.there(record):  # trained by another process by now
                return record.model_copy(update={"already_there": True})
        if request.force:
            records.set_aside(folder)
            probes.forget(folder)
            for name in (LOG, CSV):
                (folder / name).unlink(missing_ok=True)
        if request.force or outputs.from_the_start(_asked_before(folder)):
            checkpoints.remove()
        asked = {"config": config.model_dump(mode="json"), **request.remembered()}
        asked["run"] = config.identity(outputs.stream.fingerprint)
        write_atomically(folder / REQUEST, pack_json(asked))
        ranks.add(torch.zeros(1))  # the other ranks may read the folder now
        try:
            with (
                (folder / LOG).open("a", encoding="utf-8") as log,
                logging(request.loggers, folder, config) as log_numbers,
            ):

                def tell(event: Event) -> None:
                    if event["event"] not in ("progress", "work"):
                        log.write(json.dumps(event) + "\n")
                        log.flush()
                    sink(event)
                    log_numbers(event)

                with within_memory():
                    return _train(outputs, checkpoints, ranks, tell)
        except PlannedError:
            if fresh and not checkpoints.exist():
                shutil.rmtree(folder)
            raise


def _follow(outputs: Outputs, checkpoints: Checkpoints, ranks: Ranks) -> Record:
    """Train along with the rank that leads, and write nothing."""
    ranks.add(torch.zeros(1))
    config, stream, read_only = outputs.config, outputs.stream, checkpoints.read_only()
    outcome = train(config, stream, outputs.request, checkpoints=read_only, ranks=ranks)
    return describe(config, stream, outcome)


def _train(outputs: Outputs, checkpoints: Checkpoints, ranks: Ranks, tell: Sink) -> Record:
    config, stream, folder = outputs.config, outputs.stream, outputs.folder
    begin: Event = {"event": "begin", "path": str(folder), "config": config.model_dump(mode="json")}
    tell(begin | {"process": process(), "time": time.time()})
    outcome = train(
        config,
        stream,
        outputs.request,
        sink=tell,
        checkpoints=checkpoints,
        probe=outputs.task_over,
        ranks=ranks,
    )
    record = describe(config, stream, outcome)
    replaced = records.replaced_by(record, folder)
    if replaced is not None:
        outputs.remove_others()
    record = record.model_copy(update=probes.findings(folder))
    outputs.finish(outcome.learner)
    records.save(record, folder)
    checkpoints.remove()
    if replaced is not None:
        warning(tell)(records.replacement(replaced, record, folder))
    tell({"event": "end", "acc": record.acc, "bwt": record.bwt})
    return record


def _asked(folder: Path) -> tuple[Config, Request, str] | None:
    """Load the request of a run and its name; None if they are missing or damaged. Earlier
    versions wrote no checksum, and named only the folder."""
    try:
        values = unpack_json(text_bytes(folder / REQUEST), unsigned=True)
        name = values.pop("run", folder.absolute().name)
        return Config.of(**values.pop("config")), Request.of(**values), name
    except (OSError, ValueError, KeyError, TypeError, UserError):
        return None


def _asked_before(folder: Path) -> Request:
    """Load what an interrupted run in this folder was asked for."""
    asked = _asked(folder)
    return Request() if asked is None else asked[1]


def _tidy(outputs: Outputs, checkpoints: Checkpoints, record: Record) -> None:
    """Remove what a process left that was killed after it wrote the record, unless the record lacks
    something that is still to be trained from these checkpoints."""
    folder = outputs.folder
    before = replace(outputs, request=_asked_before(folder))
    if (checkpoints.exist() or (folder / LOCK).exists()) and before.there(record):
        with suppress(HeldError, OSError), held(folder, lock=folder / LOCK):
            remove_leftovers(folder)
            checkpoints.remove()


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunError(
                f"cannot write to {folder}: {error.strerror}; make room, and the same command goes "
                "on from the last checkpoint"
            ) from None
        raise UserError(
            f"cannot write to {folder}: {error.strerror}; choose another folder", remedy="out"
        ) from None
