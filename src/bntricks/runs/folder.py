"""A run on disk: one folder, named by the run's identity, trained once.

The folder holds `run.json`, what was asked for, and `log.jsonl`, one line an event, from its start;
checkpoints while it is under way; and `record.json` when it is finished. A kernel lock keeps a
second process out.
"""

from __future__ import annotations

import errno
import json
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch

from bntricks.errors import PlannedError, RunError, UserError, within_memory
from bntricks.files import held, remove_leftovers, write_atomically
from bntricks.methods import same_recipe
from bntricks.runs import network, probes, record as records
from bntricks.runs.checkpoint import Checkpoints
from bntricks.runs.config import Config, parse
from bntricks.runs.measured import digest, peak_memory_mb, taken
from bntricks.runs.readings import name_of, trunk
from bntricks.runs.record import Data, Record, Seconds
from bntricks.runs.resolve import as_text, made_with, resolve, versions
from bntricks.runs.tensorboard import tensorboard_sink
from bntricks.runs.train import Outcome, Track, train
from bntricks.streams import Stream
from bntricks.training.distributed import Ranks, joined
from bntricks.training.progress import Sink, warning

REQUEST = "run.json"
"""What was asked for, so that `resume` can ask for it again."""
ASKED = {
    "probe": None,
    "keep_network": False,
    "readings": False,
}  # what earlier versions did not ask for
LOG = "log.jsonl"


def run(
    config: Config,
    *,
    data: Path | str | None = None,
    out: Path | str = "runs",
    track: Track = "deferred",
    force: bool = False,
    checkpoint_seconds: float = 120.0,
    tensorboard: bool = False,
    probe: str | None = None,
    keep_network: bool = False,
    readings: bool = False,
    sink: Sink = lambda event: None,
) -> Record:
    """The record of this run: from disk if it is there, else trained and written. A run that was
    interrupted goes on from its newest checkpoint, unless `force` starts it anew. If a `probe` has
    not looked at it, its network was not kept, or its `readings` were not taken, it is trained
    again, to the same bits. A run that is a reading of another is that one's."""
    stream, asked = resolve(config, data, sink)
    config = trunk(asked)
    reading = None if asked == config else name_of(asked)
    readings = readings or reading is not None
    folder = Path(out) / config.identity(stream.fingerprint)
    warn = warning(sink)
    with _writing_to(folder):
        looked = probe is None or probes.looked(probe, folder, stream)
        enough = looked and not (keep_network and not network.is_kept(folder))
        record = None if force or not enough else finished(config, stream, out, warn)
        if record is not None and (record.readings is not None or not readings):
            if record.path != folder:
                folder.mkdir(parents=True, exist_ok=True)
                records.save(record, folder)
            record = record.model_copy(update={"path": folder, "already_there": True})
            return record.read_as(reading)
        checkpoints = Checkpoints(
            folder,
            made_with(config, stream),
            defaults=as_text(Config()),
            seconds=checkpoint_seconds,
            warn=warn,
        )
        work = _Work(config, stream, folder, checkpoints, track, probe, keep_network, readings)
        with joined(config.ranks, config.device) as ranks:
            if ranks.rank:
                record = work.follow(ranks)
            else:
                record = work.lead(ranks, data, force, tensorboard, sink)
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
    sink: Sink = lambda event: None,
    **how: Any,
) -> Record:
    """Go on with the run in this folder; `data` if it has moved."""
    folder = Path(folder)
    try:
        request = json.loads((folder / REQUEST).read_bytes())
        config, data_then, track = parse(request["config"]), request["data"], request["track"]
        how = {key: request.get(key, default) for key, default in ASKED.items()} | how
        plain = all(isinstance(value, str | None) for value in (data_then, how["probe"]))
        plain = plain and all(isinstance(how[key], bool) for key in ("keep_network", "readings"))
        if not plain or track not in get_args(Track):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, UserError):
        raise UserError(
            f"{folder} holds no run ({REQUEST} is missing or damaged): give the folder of a run, "
            "or repeat the `bnt run` that made it"
        ) from None
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
    probe: str | None
    keep_network: bool
    readings: bool

    def lead(
        self, ranks: Ranks, data: Path | str | None, force: bool, tensorboard: bool, sink: Sink
    ) -> Record:
        """Train, alone or with others that follow, and write all there is to write."""
        folder = self.folder
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        with held(folder, lock=folder / "lock"):
            remove_leftovers(folder)
            if force:
                probes.forget(folder)
                (folder / LOG).unlink(missing_ok=True)
            before = _asked_before(folder)
            missed = self.probe not in (None, before["probe"])
            if force or missed or (self.readings and not before["readings"]):
                self.checkpoints.remove()  # a probe looks from the start, and so does a reading
            where = None if data is None else str(Path(data).absolute())
            request = {"config": self.config.model_dump(mode="json"), "data": where}
            request |= {key: getattr(self, key) for key in ("track", *ASKED)}
            write_atomically(folder / REQUEST, json.dumps(request).encode())
            ranks.add(torch.zeros(1))  # those who follow may look at the folder now
            try:
                with (
                    (folder / LOG).open("a", encoding="utf-8") as log,
                    tensorboard_sink(folder) if tensorboard else nullcontext(sink) as mirror,
                ):

                    def tell(event: dict[str, Any]) -> None:
                        if event["event"] not in ("progress", "work"):
                            log.write(json.dumps(event) + "\n")
                            log.flush()
                        for each in {sink, mirror}:
                            each(event)

                    with within_memory():
                        return self._train(ranks, tell)
            except PlannedError:
                if fresh:
                    shutil.rmtree(folder)
                raise

    def follow(self, ranks: Ranks) -> Record:
        """Train along with the rank that leads, and write nothing."""
        ranks.add(torch.zeros(1))
        read_only = self.checkpoints.read_only()
        outcome = train(
            self.config, self.stream, track=self.track, checkpoints=read_only, ranks=ranks
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
            probe=None if self.probe is None else probes.probe(self.probe, folder, config.seed),
            ranks=ranks,
            read=self.readings,
        )
        record = describe(config, stream, outcome).model_copy(update=probes.findings(folder))
        if self.keep_network:
            network.save(outcome.learner.net, folder)
        records.save(record, folder)
        self.checkpoints.remove()
        tell({"event": "end", "acc": record.acc, "bwt": record.bwt})
        return record


def describe(config: Config, stream: Stream, outcome: Outcome) -> Record:
    """Everything worth keeping of a finished run."""
    cost = outcome.learner.cost
    passes = cost.forwards + cost.tracking_forwards
    kinds = ("train", "test")
    return Record(
        config=config,
        accuracy=tuple(map(tuple, outcome.accuracy)),
        task_il_accuracy=tuple(map(tuple, outcome.within)),
        readings=taken(outcome),
        data=Data(
            fingerprint=stream.fingerprint,
            classes=tuple(task.classes for task in stream),
            class_names=stream.class_names,
            images=dict(zip(kinds, stream.counts, strict=True)),
            official_images=stream.official and dict(zip(kinds, stream.official, strict=True)),
            cut_down=stream.cut_down,
        ),
        seconds=Seconds(
            train=tuple(outcome.train_seconds), evaluate=tuple(outcome.evaluate_seconds)
        ),
        steps=cost.steps,
        forwards=passes,
        forwards_per_step=passes / cost.steps,
        images_per_step=cost.images / cost.steps,
        images_per_second=cost.images / sum(outcome.train_seconds),
        tracking_forwards=cost.tracking_forwards,
        tracking_skipped=cost.tracking_skipped,
        peak_memory_mb=peak_memory_mb(),
        distinct=None if (memory := outcome.learner.memory) is None else memory.distinct,
        digest=digest(outcome.learner),
        versions={
            **versions(),
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
    )


def _asked_before(folder: Path) -> dict[str, Any]:
    """What was asked of an interrupted run in this folder."""
    try:
        return ASKED | dict(json.loads((folder / REQUEST).read_bytes()))
    except (OSError, ValueError, TypeError):
        return ASKED


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
