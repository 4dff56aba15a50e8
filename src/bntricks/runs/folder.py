"""A run on disk: one folder, named by the run's identity, trained once.

The folder holds `run.json`, what was asked for, and `log.jsonl`, one line an event, from its start;
checkpoints while it is under way; and `record.json` when it is finished. A kernel lock keeps a
second process out.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bntricks.errors import RunError, UserError
from bntricks.files import held, remove_leftovers, write_atomically
from bntricks.methods import same_recipe
from bntricks.runs import probes
from bntricks.runs import record as records
from bntricks.runs import tensorboard as mirror
from bntricks.runs.checkpoint import Checkpoints
from bntricks.runs.config import Config, parse
from bntricks.runs.describing import describe
from bntricks.runs.record import Record
from bntricks.runs.resolve import made_with, prepare
from bntricks.runs.train import Track, train
from bntricks.streams import Stream
from bntricks.training.distributed import Ranks, joined
from bntricks.training.progress import Sink

ASKED = "run.json"
"""What was asked for, so that `bnt resume` can ask for it again."""
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
    sink: Sink = lambda event: None,
) -> Record:
    """The record of this run: from disk if it is there, else trained and written. A run that was
    interrupted goes on from its newest checkpoint, unless `force` starts it anew. With a `probe`
    that has not looked at this run yet, it is trained again, to the same bits."""
    stream, config = prepare(config, data, sink)
    folder = Path(out) / config.identity(stream.fingerprint)
    with _writing_to(folder):
        looked = probe is None or probes.looked(probe, folder, stream)
        if not force and looked and (found := finished(config, stream, out)) is not None:
            if not (folder / records.NAME).exists():
                folder.mkdir(parents=True, exist_ok=True)
                records.save(found, folder)
            return {**found, "path": str(folder), "already_there": True}
        kept = Checkpoints(
            folder,
            made_with(config, stream),
            seconds=checkpoint_seconds,
            warn=lambda text: sink({"event": "warning", "text": text}),
        )
        work = _Work(config, stream, folder, kept, track, probe)
        with joined(config.ranks, config.device) as ranks:
            if ranks.rank:
                record = work.follow(ranks)
            else:
                record = work.lead(ranks, data, force, tensorboard, sink)
    return {**record, "path": str(folder), "already_there": False}


def finished(config: Config, stream: Stream, out: Path | str) -> Record | None:
    """The record of this run, if it is there. What was trained under another name of the same
    recipe is the same run, to the bit; its record says so."""
    names = [config.method, *same_recipe(config.method, config.hyper)]
    for name in names:
        asked = config.model_copy(update={"method": name})
        found = records.load(Path(out) / asked.identity(stream.fingerprint))
        if found is not None and name == config.method:
            return found
        if found is not None:
            whole = config.model_dump(mode="json")
            return {"trained_as": name, **found, "method": config.method, "config": whole}
    return None


def resume(folder: Path | str, *, data: Path | str | None = None, **how: Any) -> Record:
    """Go on with the run in this folder; `data` if it has moved."""
    folder = Path(folder)
    try:
        asked = json.loads((folder / ASKED).read_bytes())
        config, found, track = parse(asked["config"]), asked["data"], asked["track"]
        how = {"probe": asked.get("probe"), **how}
    except (OSError, ValueError, KeyError, TypeError, UserError):
        raise UserError(
            f"{folder} holds no run ({ASKED} is missing or damaged): give the folder of a run, or "
            "repeat the `bnt run` that made it"
        ) from None
    data = data or found
    stream, asked_for = prepare(config, data)
    if (name := asked_for.identity(stream.fingerprint)) != folder.absolute().name:
        raise UserError(
            f"{folder} is not the run it says it is, which would be named {name}: the folder was "
            "renamed, or the data is not what it was; give the right --data"
        )
    return run(config, data=data, out=folder.parent, track=track, **how)


@dataclass(frozen=True, slots=True)
class _Work:
    """A run to be trained in its folder."""

    config: Config
    stream: Stream
    folder: Path
    checkpoints: Checkpoints
    track: Track
    probe: str | None

    def lead(
        self, ranks: Ranks, data: Path | str | None, force: bool, tensorboard: bool, sink: Sink
    ) -> Record:
        """Train, alone or with others that follow, and write all there is to write."""
        folder = self.folder
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        with held(folder / "lock"):
            remove_leftovers(folder)
            if force:
                probes.forget(folder)
                (folder / LOG).unlink(missing_ok=True)
            if force or self.probe not in (None, _probe_before(folder)):
                self.checkpoints.remove()  # a probe looks from the start
            where = None if data is None else str(Path(data).absolute())
            asked = {"config": self.config.model_dump(mode="json"), "data": where}
            asked |= {"track": self.track, "probe": self.probe}
            write_atomically(folder / ASKED, json.dumps(asked).encode())
            ranks.add(torch.zeros(1))  # those who follow may look at the folder now
            try:
                with (
                    (folder / LOG).open("a", encoding="utf-8") as log,
                    mirror.tensorboard(folder) if tensorboard else nullcontext(sink) as shown,
                ):

                    def tell(event: dict[str, Any]) -> None:
                        if event["event"] not in ("progress", "work"):
                            log.write(json.dumps(event) + "\n")
                            log.flush()
                        for each in {sink, shown}:
                            each(event)

                    return self._train(ranks, tell)
            except RunError:
                if fresh:
                    shutil.rmtree(folder)
                raise

    def follow(self, ranks: Ranks) -> Record:
        """Train along with the rank that leads, and write nothing."""
        ranks.add(torch.zeros(1))
        kept = Checkpoints(self.folder, self.checkpoints.made_with, writes=False)
        outcome = train(self.config, self.stream, track=self.track, checkpoints=kept, ranks=ranks)
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
        )
        record = {**describe(config, stream, outcome), **probes.findings(folder)}
        records.save(record, folder)
        self.checkpoints.remove()
        tell({"event": "end", "acc": record["acc"], "bwt": record["bwt"]})
        return record


def _probe_before(folder: Path) -> Any:
    """The probe that an interrupted run in this folder had."""
    try:
        return json.loads((folder / ASKED).read_bytes())["probe"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
            f"cannot write to {folder}: {error.strerror}; choose another --out"
        ) from None
