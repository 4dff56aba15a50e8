"""Resolve what was asked for before training: open the stream, and check and complete the
configuration."""

import json
import os
from pathlib import Path
from typing import Any

import torch

from bntricks.errors import UserError
from bntricks.files import shown
from bntricks.methods import METHODS, find
from bntricks.networks.head import HEADS
from bntricks.networks.imported import source_of
from bntricks.networks.norms import NORMS
from bntricks.networks.registry import NETWORKS, first_name, is_imported, sizes
from bntricks.plugins.imports import loaded
from bntricks.plugins.registry import CodeSource
from bntricks.recipes.as_published import concerns
from bntricks.recipes.corrections import CORRECTIONS
from bntricks.recipes.language import Balanced, Method
from bntricks.recipes.options import RecipeOptions
from bntricks.recipes.protocols import splits_classes
from bntricks.recipes.recalibrations import RECALIBRATIONS
from bntricks.runs.config import REVISION, Config
from bntricks.runs.norms import check_norm, published_otherwise, unused_knobs
from bntricks.runs.readings import recipe
from bntricks.runs.start import Start
from bntricks.streams import Stream, open_stream
from bntricks.streams.apply import apply_options
from bntricks.streams.registry import OPENERS
from bntricks.training.backend import check_bf16, check_device, check_tf32
from bntricks.training.checkpoint import versions
from bntricks.training.distributed import launched
from bntricks.training.events import Sink, reported, silent, warning
from bntricks.training.optimisers import OPTIMISERS, check_rate, default_of, find_optimiser
from bntricks.training.schedules import SCHEDULES


def resolve(
    config: Config,
    data: Path | str | None,
    sink: Sink = silent,
    *,
    stream: Stream | None = None,
    start: Path | None = None,
) -> tuple[Stream, Config]:
    """Open the stream unless it is given, fill in its defaults, and reset options that the method
    does not use, so that a run has one identity. With `start`, add what this model is."""
    if stream is not None:
        if "stream" in config.given() and config.stream != stream.name:
            raise UserError(
                f"the stream given is named {stream.name}: leave this out",
                option="stream",
                value=config.stream,
            )
        config = config.model_copy(update={"stream": stream.name})
    config = _with_start(config, start)
    imports = own_code(config)
    config = with_hyper(config, config.stream)
    method = recipe(config)
    find_optimiser(config.optimiser, config.sgd_momentum)
    SCHEDULES.find(config.schedule)
    check_rate(config.lr)
    check_device(config.device)
    if config.precision == "bf16":
        check_bf16(config.device)
    if config.precision == "tf32":
        check_tf32(config.device)
    check_ranks(config, method)
    check_norm(config, method)
    check_blurry(config, method)
    used = normalised(config)
    if stream is not None:
        stream = apply_options(stream, **config.rearrangement)
    else:
        stream = open_stream(
            config.stream,
            data=data,
            **config.rearrangement,
            report=reported(sink),
            warn=warning(sink),
        )
    if config.as_published and not stream.has_images:
        raise UserError("those mistakes were about images: leave this out", option="as_published")
    if min(len(task.train) for task in stream) < 2:
        raise UserError("a task with one training image has no batch statistics: add images")
    memory = None if method.memory is None else capacity(config, stream)
    if method.memory is not None and memory is not None and (least := method.memory.one_each):
        needed = {"class": len(stream.class_names), "task": len(stream)}[least]
        if memory < needed:
            raise UserError(
                f"{config.method} keeps an image of each {least}, and there are {needed}: make it "
                f"{needed} or more",
                option="memory",
                value=memory,
            )
    return stream, used.model_copy(update={"memory": memory, "imports": imports})


def capacity(config: Config, stream: Stream) -> int:
    """Return how many samples the memory has room for."""
    if (count := config.memory_per_class) is None:
        return config.memory or stream.memory
    policy, room = recipe(config).memory, count * len(stream.class_names)
    if policy is not None and not policy.counts_classes:
        raise UserError(
            f"the memory of {config.method} does not count classes: give memory",
            option="memory_per_class",
            value=count,
        )
    if config.memory not in (None, room):
        raise UserError("give this or memory", option="memory_per_class", value=count)
    return room


def _with_start(config: Config, start: Path | None) -> Config:
    """Add the checksum of the model that the run starts from, or check it."""
    checksum = None if start is None else Start.read(start).checksum
    if config.start not in (None, checksum):
        raise UserError(
            f"this run starts from weights of SHA-256 {config.start[:12]}"
            + (", and these are others" if checksum else "")
            + ": give the model that has them",
            remedy="from",
        )
    return config.model_copy(update={"start": checksum})


def normalised(config: Config) -> Config:
    """Return the configuration that `resolve` makes, as far as that depends on no image: a memory
    of None is still the stream's."""
    config = with_hyper(config, config.stream)
    method, default = recipe(config), Config()
    change = own_network(config)
    if method.memory is None:
        change |= {name: getattr(default, name) for name in config.options(of="memory")}
    if not concerns(method) and not published_otherwise(config):
        change["as_published"] = default.as_published
    if not isinstance(method.ema, Balanced):
        change["balance"] = default.balance
    for name in config.changed() & RecipeOptions.model_fields.keys():  # may add nothing
        if method == recipe(config.model_copy(update={name: getattr(default, name)})):
            change[name] = getattr(default, name)
    if config.sgd_momentum == default_of(config.optimiser, "momentum"):
        change["sgd_momentum"] = None
    return config.model_copy(update=change | unused_knobs(config))


def own_code(config: Config) -> dict[str, str]:
    """Return the user's files that this run uses, with their SHA-256. A record or a checkpoint may
    name them, but only the user imports them."""
    used = (
        METHODS.source(config.method),
        OPENERS.source(config.stream),
        _network_source(config),
        NORMS.source(config.norm),
        OPTIMISERS.source(config.optimiser),
        SCHEDULES.source(config.schedule),
        CORRECTIONS.source(config.correct),
        RECALIBRATIONS.source(config.recalibrate),
        HEADS.source(config.head),
    )
    imports = {source.name: source.sha256 for source in sorted(filter(None, used))}
    for name, digest in config.imports.items():
        if name not in imports:
            raise _not_imported(name)
        if imports[name] != digest:
            raise UserError(
                f"{shown(name)} has changed since this run was begun (SHA-256 {digest[:12]} then, "
                f"{imports[name][:12]} now): bring it back, or begin a new run"
            )
    return imports


def _network_source(config: Config) -> CodeSource | None:
    name = first_name(config.net)
    if not is_imported(name):
        return NETWORKS.source(name)
    module = name.partition(":")[0]
    if module in config.imports and module not in {code.source.name for code in loaded()}:
        raise _not_imported(module)  # a record named it, not the user
    return source_of(name)


def _not_imported(name: str) -> UserError:
    return UserError(f"this run uses {shown(name)}: import that file", remedy="import")


def with_hyper(config: Config, stream: str) -> Config:
    """Fill in the method's hyper-parameters by the defaults of this stream."""
    defaults = find(config.method).hyper(stream)
    return config.model_copy(update={"hyper": {**defaults, **config.hyper}})


def own_network(config: Config) -> dict[str, Any]:
    """Return the network's first name, and defaults for the sizes that it does not have."""
    name, default = first_name(config.net), Config()
    unused = config.options(of="network") - sizes(name)
    return {"net": name, **{key: getattr(default, key) for key in unused}}


def made_with(config: Config, stream: Stream) -> dict[str, str]:
    """Return all that a run's bits depend on, except the machine."""
    return {
        **as_text(config),
        "data": stream.fingerprint,
        "revision": str(REVISION),
        **versions(),
    }


def as_text(config: Config) -> dict[str, str]:
    return {key: json.dumps(value) for key, value in config.model_dump(mode="json").items()}


def check_blurry(config: Config, method: Method) -> None:
    """Refuse blurry tasks for methods that treat a task's own classes differently."""
    if config.blurry and splits_classes(method):
        raise UserError(
            f"{config.method} takes all images of a task for images of the task's own classes, so "
            "each class must come in one task alone: choose another method, such as er-bnt",
            option="blurry",
            value=config.blurry,
        )


def check_ranks(config: Config, method: Method) -> None:
    """Refuse what cannot be split over processes: steps that use more than their batches."""
    if config.ranks != launched()[1]:
        raise UserError(
            f"this run is split over {config.ranks} processes, not {launched()[1]}: ask for "
            f"{config.ranks}",
            remedy="ranks",
        )
    if config.ranks == 1:
        if config.synchronised:
            raise UserError("this is for several processes", option="synchronised", remedy="ranks")
        return
    check_gpus(config)
    if config.compile:
        raise UserError(
            "compiled passes do not show several processes the moments they track: compile, or "
            "split the run",
            option="compile",
        )
    whole = (method.project, method.teacher, method.prepare, method.together, method.averages)
    if config.correct != "none":
        raise UserError(
            "it looks at the whole network and memory: do not split the run",
            option="correct",
            value=config.correct,
        )
    if any(whole) or method.joint or not (method.memory is None or method.memory.splits):
        raise UserError(
            "this method cannot be split over processes: sgd, er and der and their variants can; "
            "do not split this run",
            option="method",
            value=config.method,
        )


def check_gpus(config: Config) -> None:
    """Refuse processes that would share a GPU."""
    device, here = torch.device(config.device), int(os.environ["LOCAL_WORLD_SIZE"])
    if device.type == "mps" or device.index is not None:
        raise UserError(
            "several processes do not share one GPU: give cuda, and each takes its own, or cpu",
            option="device",
            value=config.device,
        )
    if device.type == "cuda" and here > torch.cuda.device_count():
        raise UserError(
            f"there are {here} processes here, and "
            f"{torch.cuda.device_count()} GPUs: start one process for each GPU",
            option="device",
            value=config.device,
        )
