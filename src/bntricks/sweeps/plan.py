"""Which runs a study of the paper needs, and about how long they will take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bntricks.errors import UserError
from bntricks.paper import ScaleName, Study
from bntricks.runs.config import Config, parse

if TYPE_CHECKING:
    from bntricks.streams import Stream
    from bntricks.sweeps.local import Shared
    from bntricks.training.progress import Sink

STEPS = 3
"""Steps timed for each kind of run, after one to warm up."""


def plan(
    study: Study,
    scale: ScaleName,
    *,
    seeds: int | None = None,
    methods: Sequence[str] = (),
    streams: Sequence[str] = (),
    everything: bool = False,
    device: str = "cpu",
    options: Mapping[str, Any] = MappingProxyType({}),
) -> list[Config]:
    """The runs of a study, narrowed to some methods, among which may be others than its own, moved
    to other streams or a device, or with other values of some options."""
    from bntricks.methods import find

    added = [name for name in methods if name not in study.methods]
    for name in added:
        find(name)
    study = study.model_copy(update={"methods": (*study.methods, *added)})
    varied = {key for variant in study.variants for key in variant.values(scale)}
    for key in sorted(varied & options.keys()):
        raise UserError(f"{study.name} compares values of this option: leave it out", option=key)
    other_streams = [name for name in streams if name not in study.streams]
    if other_streams and study.streams:
        # The study's own protocol, on a stream the paper does not have.
        configs = [
            config.model_copy(update={"stream": stream})
            for stream in streams
            for config in study.configs(scale, seeds=seeds, costly=everything)
            if config.stream == study.streams[0]
        ]
    else:
        configs = study.configs(scale, seeds=seeds, costly=everything)
        configs = [config for config in configs if not streams or config.stream in streams]
    chosen = [config for config in configs if not methods or config.method in methods]
    for name in sorted(set(added) - {config.method for config in chosen}):
        raise UserError(
            f"{study.name} runs each of its variants with methods of its own: it has no runs of "
            f"another, such as {name}"
        )
    return [parse({**config.model_dump(), "device": device, **options}) for config in chosen]


def trainings(configs: Sequence[Config]) -> list[Config]:
    """What has to be trained for these runs, each once: some are readings of others."""
    from bntricks.runs.readings import trunk

    return list({trunk(config).model_dump_json(): trunk(config) for config in configs}.values())


def seconds_left(
    configs: Sequence[Config], shared: Shared, sink: Sink = lambda event: None
) -> float:
    """About how long the runs still to be made take on one core, from the times of a few steps."""
    from bntricks.batch import batch_count
    from bntricks.runs import probes
    from bntricks.runs.folder import finished
    from bntricks.runs.resolve import resolve

    total, measured = 0.0, dict[str, float]()
    for requested in configs:
        stream, config = resolve(requested, shared.data, sink)
        folder = shared.out / config.identity(stream.fingerprint)
        probed = shared.probe is None or probes.looked(shared.probe, folder, stream)
        with suppress(UserError):  # which is for the run itself to say
            record = finished(config, stream, shared.out, warn=lambda text: None)
            read = record is not None and (record.readings is not None or not shared.readings)
            if read and probed and not shared.force:
                continue
        kind = config.model_copy(update={"seed": 0})
        key = kind.model_dump_json()
        if key not in measured:
            steps = sum(
                batch_count(len(task.train), config.batch, even=config.even_batches)
                for task in stream
            )
            measured[key] = config.epochs * steps * step_seconds(kind, stream)
        total += measured[key]
    return total


def step_seconds(config: Config, stream: Stream) -> float:
    """The mean time of a step, over the first two tasks: in the second, the memory is in use."""
    import torch

    from bntricks.runs.train import build

    torch.set_num_threads(config.threads)
    learner = build(config.model_copy(update={"epochs": 1}), stream)
    seconds = 0.0
    for task in stream[:2]:
        rows = torch.unique(torch.linspace(0, len(task.train) - 1, 4 * config.batch).long())
        x, y = task.train.x[rows], task.train.y[rows]
        learner.begin(task.classes, x, y, visitors=task.visitors)
        for index in range(STEPS + 1):
            start = time.perf_counter()
            learner.observe(x[: config.batch], y[: config.batch], ids=torch.arange(config.batch))
            if index:
                seconds += (time.perf_counter() - start) / STEPS / 2
        learner.end(x, y)
    return seconds
