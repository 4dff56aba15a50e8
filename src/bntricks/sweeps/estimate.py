"""The time and the memory that runs will take, from a few steps of each kind, or from a table."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bntricks.errors import UserError
from bntricks.files import parse_json, read_errors, shown, text_bytes
from bntricks.runs.config import Config
from bntricks.runs.request import Request
from bntricks.sweeps.once import trainings
from bntricks.training.events import Sink, silent

if TYPE_CHECKING:
    from bntricks.streams import Stream

STEPS = 3
"""Steps timed for each kind of run, after one to warm up."""
WORTH_STEPS, WORTH_SAYING = 2000, 0.9
"""Steps of a run for which another precision is tried, and the share of the time that is worth a
word."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """The cost of a kind of run."""

    step_seconds: float = 0.0
    memory_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class Planned:
    """A training, with its folder and what it will cost."""

    config: Config
    """As it was asked for."""
    folder: Path
    there: bool
    steps: int = 0
    cost: StepCost = StepCost()
    known_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """The time that is left."""
        known = self.known_seconds
        return self.steps * self.cost.step_seconds if known is None else known


def seconds_left(configs: Sequence[Config], request: Request, sink: Sink = silent) -> float:
    """Estimate the time that the remaining runs take on one core, from the times of a few steps.
    Runs whose steps fail here are not counted."""
    return sum(each.seconds for each in planned(configs, request, sink=sink))


def planned(
    configs: Sequence[Config],
    request: Request,
    *,
    known: Mapping[str, float] = MappingProxyType({}),
    costs: Sequence[Mapping[str, Any]] = (),
    sink: Sink = silent,
) -> list[Planned]:
    """List the trainings that these runs need. A kind of run is measured, unless its cost is in the
    table, or the seconds of the run, by its name, are known."""
    from bntricks.runs.folder import finished
    from bntricks.runs.outputs import Outputs
    from bntricks.runs.readings import trunk
    from bntricks.runs.resolve import resolve

    plan, measured = list[Planned](), dict[str, StepCost]()
    for training in trainings(configs):
        stream, asked = resolve(training.config, request.data, sink, start=request.start)
        config = trunk(asked)
        readings = request.readings or training.readings or config != asked
        own = request.model_copy(update={"readings": readings})
        folder = request.out / config.identity(stream.fingerprint)
        with suppress(UserError):  # which is for the run itself to say
            record = finished(config, stream, folder, warn=lambda text: None)
            outputs = Outputs(own, config, stream, folder)
            if record is not None and outputs.there(record) and not request.force:
                plan.append(Planned(training.config, folder, there=True))
                continue
        if folder.name in known:
            seconds = known[folder.name]
            plan.append(Planned(training.config, folder, there=False, known_seconds=seconds))
            continue
        kind = config.model_copy(update={"seed": 0})
        key = kind.model_dump_json()
        if key not in measured:
            measured[key] = _given(config, costs) or _measured(kind, stream)
        steps = _steps(config, stream)
        plan.append(Planned(training.config, folder, False, steps, measured[key]))
    return plan


def elapsed(plan: Sequence[Planned], workers: int) -> float:
    """Return the time until all are done, where each worker takes the next run in turn."""
    free = [0.0] * workers
    for each in plan:
        heapq.heapreplace(free, free[0] + each.seconds)
    return max(free)


def kind_of(config: Config) -> dict[str, Any]:
    """Describe a kind of run by its options other than the defaults, for a table of costs."""
    own = config.model_dump(mode="json", exclude_defaults=True, exclude={"imports", "seed"})
    return {"method": config.method, "stream": config.stream, **own}


def read_costs(path: Path) -> list[dict[str, Any]]:
    """Read a table of costs: a JSON list, or the output of a dry run. Each row has `step_seconds`,
    perhaps `memory_mb`, and the options of the runs that it is for."""
    try:
        with read_errors(path):
            rows = parse_json(text_bytes(path))
        rows = rows["costs"] if isinstance(rows, dict) else rows
        for row in rows:
            unknown = set(row) - {"step_seconds", "memory_mb", *Config.model_fields}
            numbers = (row["step_seconds"], row.get("memory_mb", 0))
            if unknown or not all(isinstance(n, int | float) and n >= 0 for n in numbers):
                raise ValueError(f"a row has {', '.join(unknown) or numbers}")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(
            f"{shown(path)} is no table of costs: give a JSON list of rows such as "
            '{"method": "er", "stream": "seq-cifar10", "step_seconds": 0.02, "memory_mb": 900}, '
            "or what a dry run has printed as JSON",
            option="costs",
        ) from None
    return list(rows)


def bf16_share(config: Config, stream: Stream) -> float | None:
    """Measure the share of float32's time that bfloat16 takes for a step of this run; None unless
    it computes in float32 on a CPU with instructions for bfloat16, long enough for it to matter."""
    from bntricks.runs.describe import numerics
    from bntricks.training.backend import check_bf16

    other = config.precision != "float32" or config.device != "cpu" or config.compile
    if other or _steps(config, stream) < WORTH_STEPS:
        return None
    if not {"avx512_bf16", "amx_bf16"}.intersection(numerics("cpu").instructions):
        return None
    with suppress(Exception):  # the run reports it, if it fails as well
        check_bf16("cpu")
        lower = config.model_copy(update={"precision": "bf16"})
        clock = time.process_time  # of this process alone, whatever else the machine does
        return step_seconds(lower, stream, clock) / step_seconds(config, stream, clock)
    return None


def _steps(config: Config, stream: Stream) -> int:
    from bntricks.batch import batch_count

    batch, even = config.batch, config.even_batches
    each = (batch_count(len(task.train), batch, even=even) for task in stream)
    return config.epochs * sum(each)


def _given(config: Config, costs: Sequence[Mapping[str, Any]]) -> StepCost | None:
    """Return the cost by the first row whose options are those of the run."""
    own = config.model_dump(mode="json")
    for row in costs:
        options = {key: value for key, value in row.items() if key in own and key != "seed"}
        if all(own[key] == value for key, value in options.items()):
            return StepCost(row["step_seconds"], row.get("memory_mb", 0.0))
    return None


def _measured(config: Config, stream: Stream) -> StepCost:
    import torch

    from bntricks.runs.describe import peak_memory_mb, reset_peak_memory

    on_gpu = config.device.startswith("cuda")
    reset_peak_memory()
    try:
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(config.device)
        seconds = step_seconds(config, stream)
        peak = torch.cuda.max_memory_reserved(config.device) / 2**20 if on_gpu else peak_memory_mb()
    except Exception:  # the run reports it, if it fails as well
        return StepCost()
    return StepCost(seconds, peak)


def step_seconds(
    config: Config, stream: Stream, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Measure the mean time of a step over two tasks; the second uses the memory."""
    import torch

    from bntricks.runs.train import build

    torch.set_num_threads(config.threads)
    learner = build(config.model_copy(update={"epochs": 1}), stream)
    seconds = 0.0
    for task in stream[:2]:
        rows = torch.unique(torch.linspace(0, len(task.train) - 1, 4 * config.batch).long())
        x, y = task.train.x[rows], task.train.y[rows]
        ids = torch.arange(min(config.batch, len(y)))
        learner.begin(task.classes, x, y, visitors=task.visitors)
        for index in range(STEPS + 1):
            start = clock()
            learner.observe(x[: config.batch], y[: config.batch], ids=ids)
            if config.device.startswith("cuda"):
                torch.cuda.synchronize(config.device)
            if index:
                seconds += (clock() - start) / STEPS / 2
        learner.end(x, y)
    return seconds
