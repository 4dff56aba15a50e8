"""From what was asked for to what will be trained: the stream, and a configuration in which all
is filled in and checked, before any work."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from bntricks.errors import UserError
from bntricks.files import shown
from bntricks.methods import METHODS, find, make
from bntricks.networks.norms import NORMS
from bntricks.networks.registry import NETWORKS
from bntricks.recipes.as_published import concerns
from bntricks.recipes.language import Balanced, Method
from bntricks.runs.config import REVISION, Config
from bntricks.runs.norms import check_norm, published_otherwise, unused_knobs
from bntricks.streams import Stream, open_stream
from bntricks.streams.registry import OPENERS
from bntricks.streams.validation import with_validation
from bntricks.training.backend import check_bf16, check_device, check_tf32
from bntricks.training.distributed import launched
from bntricks.training.optimisers import OPTIMISERS, check_rate
from bntricks.training.progress import Sink, warning
from bntricks.training.schedules import SCHEDULES

YOUNGER = {"deterministic", "imports", "validation"}
"""Options that checkpoints of earlier versions do not have: left out at their defaults."""


def resolve(
    config: Config, data: Path | str | None, sink: Sink = lambda event: None
) -> tuple[Stream, Config]:
    """Open the stream, fill in its defaults, and drop what the method does not use, so that one
    run has one identity however it was asked for."""
    imports = own_code(config)
    config = with_hyper(config, config.stream)
    method = make(config.method, **config.hyper)
    NETWORKS.find(config.net), OPTIMISERS.find(config.optimiser)
    SCHEDULES.find(config.schedule)
    check_rate(config.lr)
    check_device(config.device)
    if config.precision == "bf16":
        check_bf16(config.device)
    if config.precision == "tf32":
        check_tf32(config.device)
    check_ranks(config, method)
    check_norm(config, method)
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
        warn=warning(sink),
    )
    if config.validation is not None:
        stream = with_validation(stream, config.validation)
    if min(len(task.train) for task in stream) < 2:
        raise UserError("a task with one training image has no batch statistics: add images")
    default = Config()
    change: dict[str, Any] = {"memory": config.memory or stream.memory, "imports": imports}
    if method.memory is not None and (least := method.memory.one_each):
        needed = {"class": len(stream.class_names), "task": len(stream)}[least]
        if change["memory"] < needed:
            raise UserError(
                f"{config.method} keeps an image of each {least}, and there are {needed}: make it "
                f"{needed} or more",
                option="memory",
                value=change["memory"],
            )
    if method.memory is None:
        change |= {"memory": None, "memory_batch": default.memory_batch}
    if not concerns(method) and not published_otherwise(config):
        change["as_published"] = default.as_published
    if not isinstance(method.ema, Balanced):
        change["balance"] = default.balance
    change |= unused_knobs(config)
    return stream, config.model_copy(update=change)


def own_code(config: Config) -> dict[str, str]:
    """The user's files that this run uses, with their SHA-256. A record or a checkpoint may say
    which these were, but only the user imports them."""
    used = (
        METHODS.source(config.method),
        OPENERS.source(config.stream),
        NETWORKS.source(config.net),
        NORMS.source(config.norm),
        OPTIMISERS.source(config.optimiser),
        SCHEDULES.source(config.schedule),
    )
    imports = {source.name: source.sha256 for source in sorted(filter(None, used))}
    for name, digest in config.imports.items():
        if name not in imports:
            raise UserError(f"this run uses {shown(name)}: import that file", remedy="import")
        if imports[name] != digest:
            raise UserError(
                f"{shown(name)} has changed since this run was begun (SHA-256 {digest[:12]} then, "
                f"{imports[name][:12]} now): bring it back, or begin a new run"
            )
    return imports


def with_hyper(config: Config, stream: str) -> Config:
    """With every hyper-parameter of the method filled in, by the defaults of this stream."""
    defaults = find(config.method).hyper(stream)
    return config.model_copy(update={"hyper": {**defaults, **config.hyper}})


def made_with(config: Config, stream: Stream) -> dict[str, str]:
    """All that the bits of a run depend on, but for the machine."""
    values = config.model_dump(mode="json")
    chosen = config.model_dump(mode="json", exclude_defaults=True)
    for key in YOUNGER - chosen.keys():
        del values[key]
    return {
        **{key: json.dumps(value) for key, value in values.items()},
        "data": stream.fingerprint,
        "revision": str(REVISION),
        **versions(),
    }


def versions() -> dict[str, str]:
    return {"bntricks": version("bntricks"), "torch": str(torch.__version__)}


def check_ranks(config: Config, method: Method) -> None:
    """What ranks can share are steps that look at nothing but their batches."""
    if config.ranks != launched()[1]:
        raise UserError(
            f"this run is split over {config.ranks} processes: start it with torchrun, "
            f"{config.ranks} processes a node"
        )
    if config.ranks == 1:
        if config.synchronised:
            raise UserError(
                "this is for several processes: start the run with torchrun", option="synchronised"
            )
        return
    check_gpus(config)
    if config.compile:
        raise UserError(
            "compiled passes do not show several processes the moments they track: compile, or "
            "start the run with torchrun",
            option="compile",
        )
    whole = (method.project, method.teacher, method.prepare, method.together)
    if any(whole) or method.joint or not (method.memory is None or method.memory.splits):
        raise UserError(
            "this method cannot be split over processes: sgd, er and der and their variants can; "
            "run it without torchrun",
            option="method",
            value=config.method,
        )


def check_gpus(config: Config) -> None:
    """Each process of a node takes a GPU of its own, or all compute on the CPU."""
    device, here = torch.device(config.device), int(os.environ["LOCAL_WORLD_SIZE"])
    if device.type == "mps" or device.index is not None:
        raise UserError(
            "several processes do not share one GPU: give cuda, and each takes its own, or cpu",
            option="device",
            value=config.device,
        )
    if device.type == "cuda" and here > torch.cuda.device_count():
        raise UserError(
            f"torchrun has started {here} processes here, and there are "
            f"{torch.cuda.device_count()} GPUs: start one process for each GPU",
            option="device",
            value=config.device,
        )
