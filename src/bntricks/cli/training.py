"""Training many runs, for `bnt study` and `bnt sweep`: where they are trained, and how that is
shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import BaseModel, ConfigDict

from bntricks.cli import console
from bntricks.cli.app import Count, Names, Seconds, Switch
from bntricks.runs.config import Config

if TYPE_CHECKING:
    from bntricks.runs.record import Record
    from bntricks.sweeps.local import Failure


class Work(BaseModel):
    """Where runs are trained, and where they lie."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    data: Path | None = None
    """Folder with existing data [default: $BNT_DATA, or downloads]."""
    out: Path = Path("runs")
    """Where runs are written, each in a folder of its own, and the report beside them."""
    workers: Count | None = None
    """Runs at the same time, one thread each [default: one per core; on a GPU, one]."""
    ray: str | None = None
    """Run on the Ray cluster at this address, or `auto` for the one this machine belongs to."""
    cpus_per_run: Annotated[float, Parameter(validator=Number(gt=0))] = 1.0
    """On Ray: cores reserved for each run."""
    gpus_per_run: Annotated[float, Parameter(validator=Number(gte=0))] = 0.0
    """On Ray: GPUs reserved for each run; 0.25 puts four runs on one."""
    checkpoint_seconds: Seconds = 120.0
    """Time between a run's checkpoints, in seconds."""
    log: Names = ()
    """Write each run's losses and accuracies elsewhere too, as `bnt run --log` does: `csv`,
    `tensorboard`, `wandb` or `wandb-online`."""
    save: Switch = False
    """Write each trained network into its run's folder, as `model.safetensors`."""
    force: Switch = False
    """Train all runs from the start, even those that are already there."""


def train_all(
    name: str, configs: Sequence[Config], work: Work, probe: str | None = None
) -> list[Record | Failure]:
    """The runs' records, or why there is none; how far they are is shown on the way."""
    from bntricks.cli.dashboard import board
    from bntricks.runs.loggers import LOGGERS
    from bntricks.sweeps.local import Shared, default_workers, sweep
    from bntricks.sweeps.once import trainings
    from bntricks.sweeps.plan import seconds_left
    from bntricks.sweeps.ray import Request, sweep_on_ray

    for logger in work.log:
        LOGGERS.find(logger)
    if not configs:
        return []
    shared = Shared(
        work.data,
        work.out,
        probe=probe,
        checkpoint_seconds=work.checkpoint_seconds,
        log=work.log,
        save="end" if work.save else None,
        force=work.force,
    )
    trained = [training.config for training in trainings(configs)]
    seconds = seconds_left(configs, shared, console.warnings)
    runs = f"{name}: {len(trained)} run{'s' * (len(trained) != 1)}"
    with board(configs) as sink:
        if work.ray is not None:
            console.complain(f"{runs}, {_duration(seconds)} of one core, on Ray")
            request = Request(work.ray, work.cpus_per_run, work.gpus_per_run)
            return sweep_on_ray(configs, shared, request, sink)
        count = min(work.workers or default_workers(trained), len(trained))
        cores = f"{count} core{'s' * (count != 1)}"
        console.complain(f"{runs}, {_duration(seconds / count)} on {cores}")
        return sweep(configs, shared, workers=count, sink=sink)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return "about a minute" if minutes else "less than a minute"
    return f"about {minutes} minutes" if minutes < 120 else f"about {minutes / 60:.1f} hours"
