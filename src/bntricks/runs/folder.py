"""A run on disk: one folder, named by the run's identity, trained once.

The folder holds `run.json`, what was asked for, and `log.jsonl`, one line an event, from its start;
checkpoints while it is under way; and `record.json` when it is finished. A kernel lock keeps a
second process out.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

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
from bntricks.runs import probes, record_file as records
from bntricks.runs.config import Config
from bntricks.runs.describe import describe, reset_peak_memory
from bntricks.runs.extras import Extras
from bntricks.runs.loggers import CSV, logging
from bntricks.runs.models import When
from bntricks.runs.readings import name_of, trunk
from bntricks.runs.record import Record
from bntricks.runs.resolve import as_text, made_with, resolve
from bntricks.runs.train import Track, train
from bntricks.streams import Stream
from bntricks.training.checkpoint import Checkpoints
from bntricks.training.distributed import Ranks, joined
from bntricks.training.events import Event, Sink, silent, warning

REQUEST = "run.json"
"""What was asked for, so that `resume` can ask for it again."""
LOG, LOCK = "log.jsonl", "lock"


def run(
    config: Config,
    *,
    data: Path | str | None = None,
    out: Path | str = "runs",
    track: Track = "deferred",
    force: bool = False,
    checkpoint_seconds: float = 120.0,
    tensorboard: bool = False,
    log: Sequence[str] = (),
    probe: str | None = None,
    keep_network: bool = False,
    save: When | None = None,
    epoch_accuracy: bool = False,
    readings: bool = False,
    sink: Sink = silent,
) -> Record:
    """The record of this run: from disk if it is there, else trained and written. A run that was
    interrupted goes on from its newest checkpoint, unless `force` starts it anew. If a `probe` has
    not looked at it, its network was not kept, or its `readings` were not taken, it is trained
    again, to the same bits where versions and machine are the same; if it lacks what `save` or
    `epoch_accuracy` ask for, only `force` does that (see `Extras`). A run that is a reading of
    another is that one's. `log` names `LOGGERS` that get its numbers on the way; `tensorboard` is
    one of them."""
    reset_peak_memory()
    stream, asked = resolve(config, data, sink)
    config = trunk(asked)
    reading = None if asked == config else name_of(asked)
    extras = Extras(probe, keep_network, save, epoch_accuracy, readings or reading is not None)
    folder = Path(out) / config.identity(stream.fingerprint)
    warn = warning(sink)
    with _writing_to(folder):
        checkpoints = Checkpoints(
            folder,
            made_with(config, stream),
            defaults=as_text(Config()),
            seconds=checkpoint_seconds,
            warn=warn,
        )
        record = None if force else finished(config, stream, out, warn)
        if record is not None and extras.there(record, folder, stream):
            extras.check_there(record, folder, stream)
            if record.path != folder:
                folder.mkdir(parents=True, exist_ok=True)
                with held(folder, lock=folder / LOCK):
                    remove_leftovers(folder)
                    records.save(record, folder)
            _tidy(folder, checkpoints, record, stream)
            record = record.model_copy(update={"path": folder, "already_there": True})
            return record.read_as(reading)
        work = _Work(config, stream, folder, checkpoints, track, extras)
        with joined(config.ranks, config.device) as ranks:
            if ranks.rank:
                record = work.follow(ranks)
            else:
                loggers = (*log, *(["tensorboard"] if tensorboard else []))
                record = work.lead(ranks, data, force, loggers, sink)
    return record.model_copy(update={"path": folder}).read_as(reading)


def finished(
    config: Config, stream: Stream, out: Path | str, warn: Callable[[str], None]
) -> Record | None:
    """The record of this run, if it is there and can be believed. What was trained under another
    name of the same recipe is the same run, to the bit; its record says so."""
    for name in (config.method, *same_recipe(config.method, config.hyper)):
        renamed = config.model_copy(update={"method": name})
        record = records.load(Path(out) / renamed.identity(stream.fingerprint), warn)
        if record is None:
            continue
        if record.config != renamed or record.data.fingerprint != stream.fingerprint:
            raise UserError(
                f"the record in {record.path} is of another run: delete it, or train the run again",
                remedy="force",
            )
        if name == config.method:
            return record
        trained_as = record.trained_as or name
        return record.model_copy(update={"config": config, "trained_as": trained_as})
    return None


def resume(
    folder: Path | str,
    *,
    data: Path | str | None = None,
    net: str | None = None,
    sink: Sink = silent,
    **how: Any,
) -> Record:
    """Go on with the run in this folder; `data` if it has moved. If the run's network is built by
    code of yours, name it again with `net`: a file never decides which code is run."""
    folder = Path(folder)
    try:
        request = _request(folder)
        config, data_then, track = Config.of(**request["config"]), request["data"], request["track"]
        how = Extras.parse(request).to_json() | how
        if not isinstance(data_then, str | None) or track not in get_args(Track):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, UserError):
        raise UserError(
            f"{folder} holds no run ({REQUEST} is missing or damaged): give the folder of a run, "
            "or repeat the `bnt run` that made it"
        ) from None
    check_named(config.net, net, folder / REQUEST)
    data = data or data_then
    stream, resolved = resolve(config, data, sink)
    if (name := resolved.identity(stream.fingerprint)) != folder.absolute().name:
        raise UserError(
            f"{folder} is not the run it says it is, which would be named {name}: the folder was "
            "renamed, or the data is not what it was; give the folder that has it",
            remedy="data",
        )
    return run(config, data=data, out=folder.parent, track=track, sink=sink, **how)


@dataclass(frozen=True, slots=True)
class _Work:
    """A run to be trained in its folder."""

    config: Config
    stream: Stream
    folder: Path
    checkpoints: Checkpoints
    track: Track
    extras: Extras

    def lead(
        self,
        ranks: Ranks,
        data: Path | str | None,
        force: bool,
        loggers: Sequence[str],
        sink: Sink,
    ) -> Record:
        """Train, alone or with others that follow, and write all there is to write."""
        folder = self.folder
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        with held(folder, lock=folder / LOCK):
            remove_leftovers(folder)
            if force:
                records.set_aside(folder)
                probes.forget(folder)
                for name in (LOG, CSV):
                    (folder / name).unlink(missing_ok=True)
            if force or self.extras.from_the_start(_extras_before(folder)):
                self.checkpoints.remove()
            where = None if data is None else str(Path(data).absolute())
            request = {"config": self.config.model_dump(mode="json"), "data": where}
            request |= {"track": self.track, **self.extras.to_json()}
            write_atomically(folder / REQUEST, pack_json(request))
            ranks.add(torch.zeros(1))  # those who follow may look at the folder now
            try:
                with (
                    (folder / LOG).open("a", encoding="utf-8") as log,
                    logging(loggers, folder, self.config) as log_numbers,
                ):

                    def tell(event: Event) -> None:
                        if event["event"] not in ("progress", "work"):
                            log.write(json.dumps(event) + "\n")
                            log.flush()
                        sink(event)
                        log_numbers(event)

                    with within_memory():
                        return self._train(ranks, tell)
            except PlannedError:
                if fresh and not self.checkpoints.exist():
                    shutil.rmtree(folder)
                raise

    def follow(self, ranks: Ranks) -> Record:
        """Train along with the rank that leads, and write nothing."""
        ranks.add(torch.zeros(1))
        read_only = self.checkpoints.read_only()
        outcome = train(
            self.config,
            self.stream,
            track=self.track,
            checkpoints=read_only,
            ranks=ranks,
            epoch_accuracy=self.extras.epoch_accuracy,
        )
        return describe(self.config, self.stream, outcome)

    def _train(self, ranks: Ranks, tell: Sink) -> Record:
        config, stream, folder = self.config, self.stream, self.folder
        tell({"event": "begin", "config": config.model_dump(mode="json"), "path": str(folder)})
        outcome = train(
            config,
            stream,
            track=self.track,
            sink=tell,
            checkpoints=self.checkpoints,
            probe=self.extras.look(folder, config),
            ranks=ranks,
            epoch_accuracy=self.extras.epoch_accuracy,
            read=self.extras.readings,
        )
        record = describe(config, stream, outcome)
        replaced = records.replaced_by(record, folder)
        if replaced is not None:
            self.extras.remove_others(folder, stream)
        record = record.model_copy(update=probes.findings(folder))
        self.extras.finish(outcome.learner, stream, folder, config)
        records.save(record, folder)
        self.checkpoints.remove()
        if replaced is not None:
            warning(tell)(records.replacement(replaced, record, folder))
        tell({"event": "end", "acc": record.acc, "bwt": record.bwt})
        return record


def _request(folder: Path) -> dict[str, Any]:
    """What was asked for; in folders of earlier versions it has no checksum."""
    return unpack_json(text_bytes(folder / REQUEST), unsigned=True)


def _extras_before(folder: Path) -> Extras:
    """What an interrupted run in this folder was asked for."""
    try:
        return Extras.parse(_request(folder))
    except (OSError, ValueError, KeyError, TypeError):
        return Extras()


def _tidy(folder: Path, checkpoints: Checkpoints, record: Record, stream: Stream) -> None:
    """Remove what a process left that was killed when its record was written. What the record has
    not yet is still to be trained, from these checkpoints."""
    left = checkpoints.exist() or (folder / LOCK).exists()
    if left and _extras_before(folder).there(record, folder, stream):
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
