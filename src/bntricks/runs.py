"""A run on disk: one folder, named by the run's identity, trained once.

The folder holds `record.json` when the run is finished, and `log.jsonl`, one line an event, from
its start. A kernel lock keeps a second process out.
"""

from __future__ import annotations

import json
import platform
import resource
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from bntricks import record as records
from bntricks.config import Config
from bntricks.engine import Outcome, Track, train
from bntricks.errors import RunError, UserError
from bntricks.files import held
from bntricks.methods import find, make
from bntricks.quirks import concerns
from bntricks.recipe import Balanced
from bntricks.record import Record
from bntricks.streams import Stream, open_stream
from bntricks.watch import Sink


def run(
    config: Config,
    *,
    data: Path | str | None = None,
    out: Path | str = "runs",
    track: Track = "deferred",
    force: bool = False,
    sink: Sink = lambda event: None,
) -> Record:
    """The record of this run: from disk if it is there, else trained and written."""
    stream, config = prepare(config, data, sink)
    folder = Path(out) / config.identity(stream.fingerprint)
    try:
        if not force and (found := records.load(folder)) is not None:
            return {**found, "path": str(folder), "already_there": True}
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        with held(folder / "lock"), (folder / "log.jsonl").open("w", encoding="utf-8") as log:

            def tell(event: dict[str, Any]) -> None:
                if event["event"] not in ("progress", "work"):
                    log.write(json.dumps(event) + "\n")
                    log.flush()
                sink(event)

            tell({"event": "begin", "config": config.model_dump(), "path": str(folder)})
            record = describe(config, stream, train(config, stream, track=track, sink=tell))
            records.save(record, folder)
            tell({"event": "end", "acc": record["acc"], "bwt": record["bwt"]})
    except OSError as error:
        raise UserError(
            f"cannot write to {folder}: {error.strerror}; choose another --out"
        ) from None
    except RunError:
        if fresh:
            shutil.rmtree(folder)
        raise
    return {**record, "path": str(folder), "already_there": False}


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
        "versions": {
            "bntricks": version("bntricks"),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
    }
