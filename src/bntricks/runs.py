"""A run on disk: one folder, named by the run's identity, trained once.

The folder holds `run.json`, what was asked for, and `log.jsonl`, one line an event, from its start;
checkpoints while it is under way; and `record.json` when it is finished. A kernel lock keeps a
second process out.
"""

from __future__ import annotations

import errno
import json
import platform
import resource
import shutil
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from bntricks import checkpoint, mirror, probes
from bntricks import record as records
from bntricks.checkpoint import Checkpoints
from bntricks.config import REVISION, Config, parse
from bntricks.engine import Outcome, Track, train
from bntricks.errors import RunError, UserError
from bntricks.files import held, remove_leftovers, write_atomically
from bntricks.learner import Learner
from bntricks.methods import find, make
from bntricks.quirks import concerns
from bntricks.recipe import Balanced
from bntricks.record import Record
from bntricks.streams import Stream, open_stream
from bntricks.watch import Sink

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
        if not force and looked and (found := records.load(folder)) is not None:
            return {**found, "path": str(folder), "already_there": True}
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        with held(folder / "lock"):
            remove_leftovers(folder)
            checkpoints = Checkpoints(
                folder,
                made_with(config, stream),
                seconds=checkpoint_seconds,
                warn=lambda text: sink({"event": "warning", "text": text}),
            )
            if force:
                probes.forget(folder)
                (folder / LOG).unlink(missing_ok=True)
            if force or probe not in (None, _probe_before(folder)):
                checkpoints.remove()  # a probe looks from the start
            asked = {"config": config.model_dump(mode="json"), "track": track, "probe": probe}
            where = None if data is None else str(Path(data).absolute())
            write_atomically(folder / ASKED, json.dumps({**asked, "data": where}).encode())
            mirrored = (
                mirror.tensorboard(folder) if tensorboard else nullcontext(lambda event: None)
            )
            try:
                with mirrored as shown:
                    record = _trained(
                        config, stream, folder, checkpoints, track, probe, (sink, shown)
                    )
            except RunError:
                if fresh:
                    shutil.rmtree(folder)
                raise
    return {**record, "path": str(folder), "already_there": False}


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


def _probe_before(folder: Path) -> Any:
    """The probe that an interrupted run in this folder had."""
    try:
        return json.loads((folder / ASKED).read_bytes())["probe"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _trained(
    config: Config,
    stream: Stream,
    folder: Path,
    checkpoints: Checkpoints,
    track: Track,
    probe: str | None,
    sinks: Collection[Sink],
) -> Record:
    look = None if probe is None else probes.probe(probe, folder, config.seed)
    with (folder / LOG).open("a", encoding="utf-8") as log:

        def tell(event: dict[str, Any]) -> None:
            if event["event"] not in ("progress", "work"):
                log.write(json.dumps(event) + "\n")
                log.flush()
            for sink in sinks:
                sink(event)

        tell({"event": "begin", "config": config.model_dump(), "path": str(folder)})
        outcome = train(config, stream, track=track, sink=tell, checkpoints=checkpoints, probe=look)
        record = {**describe(config, stream, outcome), **probes.findings(folder)}
        records.save(record, folder)
        checkpoints.remove()
        tell({"event": "end", "acc": record["acc"], "bwt": record["bwt"]})
    return record


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


def made_with(config: Config, stream: Stream) -> dict[str, str]:
    """All that the bits of a run depend on, but for the machine."""
    values = config.model_dump(mode="json")
    return {
        **{key: json.dumps(value) for key, value in values.items()},
        "data": stream.fingerprint,
        "revision": str(REVISION),
        **versions(),
    }


def versions() -> dict[str, str]:
    return {"bntricks": version("bntricks"), "torch": torch.__version__}


def prepare(
    config: Config, data: Path | str | None, sink: Sink = lambda event: None
) -> tuple[Stream, Config]:
    """Open the stream, fill in its defaults, and drop what the method does not use, so that one
    run has one identity however it was asked for."""
    entry = find(config.method)
    config = config.model_copy(update={"hyper": {**entry.hyper(config.stream), **config.hyper}})
    method = make(config.method, **config.hyper)
    check_device(config.device)
    stream = open_stream(
        config.stream,
        data=data,
        image_size=config.image_size,
        images_per_class=config.images_per_class,
        classes_per_task=config.classes_per_task,
        tasks=config.task_lists,
        held_out=config.held_out,
        report=lambda what, done, total: sink(
            {"event": "data", "what": what, "done": done, "total": total}
        ),
    )
    if min(len(task.train) for task in stream) < 2:
        raise UserError("a task with one training image has no batch statistics: add images")
    default = Config()
    change: dict[str, Any] = {"memory": config.memory or stream.memory}
    if method.memory is not None and (least := method.memory.one_each):
        needed = {"class": len(stream.class_names), "task": len(stream)}[least]
        if change["memory"] < needed:
            raise UserError(
                f"{config.method} keeps an image of each {least}, and there are {needed}: "
                f"raise --memory to {needed} or more"
            )
    if method.memory is None:
        change = {"memory": None, "memory_batch": default.memory_batch}
    if not concerns(method):
        change["as_published"] = default.as_published
    if not isinstance(method.ema, Balanced):
        change["balance"] = default.balance
    return stream, config.model_copy(update=change)


def digest(learner: Learner) -> dict[str, str]:
    """Hashes of the final weights with their statistics, and of the memory: equal bits, equal
    hashes."""
    memory = {} if learner.memory is None else learner.memory.state_dict()
    return {
        "network": checkpoint.digest(learner.net.state_dict()),
        "memory": checkpoint.digest(memory),
    }


def check_device(name: str) -> None:
    """Fail before any work if this machine has no such device."""
    kind = torch.device(name).type
    count = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": torch.mps.device_count()}[kind]
    if (torch.device(name).index or 0) >= count:
        raise UserError(f"--device {name}: torch finds no such device here; --device cpu works")


def describe(config: Config, stream: Stream, outcome: Outcome) -> Record:
    """Everything worth keeping of a finished run."""
    cost = outcome.learner.cost
    passes = cost.forwards + cost.tracking_forwards
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kinds = ("train", "test")
    return {
        "method": config.method,
        "stream": config.stream,
        "seed": config.seed,
        **records.metrics(outcome.accuracy),
        "accuracy": outcome.accuracy,
        "task_il": records.metrics(outcome.within),
        "task_il_accuracy": outcome.within,
        "config": config.model_dump(mode="json"),
        "data": {
            "fingerprint": stream.fingerprint,
            "classes": [list(task.classes) for task in stream],
            "class_names": list(stream.class_names),
            "images": dict(zip(kinds, stream.counts, strict=True)),
            "official_images": stream.official and dict(zip(kinds, stream.official, strict=True)),
            "cut_down": stream.cut_down,
        },
        "seconds": {"train": outcome.train_seconds, "evaluate": outcome.evaluate_seconds},
        "steps": cost.steps,
        "forwards": passes,
        "forwards_per_step": passes / cost.steps,
        "images_per_step": cost.images / cost.steps,
        "images_per_second": cost.images / sum(outcome.train_seconds),
        "tracking_forwards": cost.tracking_forwards,
        "tracking_skipped": cost.tracking_skipped,
        "peak_memory_mb": peak / (1024 if sys.platform == "linux" else 1024**2),
        "digest": digest(outcome.learner),
        "versions": {
            **versions(),
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
    }
