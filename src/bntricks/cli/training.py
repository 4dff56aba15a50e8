"""Training many runs, for `bnt study` and `bnt sweep`: where they are trained, and how that is
shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bntricks.cli import console
from bntricks.cli.app import Count
from bntricks.runs.config import Config
from bntricks.runs.request import FolderOptions, ProbeName, Request

if TYPE_CHECKING:
    from bntricks.runs.record import Record
    from bntricks.sweeps.local import Failure


class Work(FolderOptions):
    """Where many runs are trained, and what is written of each."""

    workers: Count | None = None
    """Runs at the same time, one thread each [default: one per core; on a GPU, one]."""
    ray: str | None = None
    """Run on the Ray cluster at this address, or `auto` for the one this machine belongs to."""
    cpus_per_run: Annotated[float, Parameter(validator=Number(gt=0))] = 1.0
    """On Ray: cores reserved for each run."""
    gpus_per_run: Annotated[float, Parameter(validator=Number(gte=0))] = 0.0
    """On Ray: GPUs reserved for each run; 0.25 puts four runs on one."""
    save: bool = False
    """Write each trained network into its run's folder, as `model.safetensors`."""

    def request(self, probe: ProbeName | None) -> Request:
        """What each run is asked for."""
        own = self.model_dump(include=set(FolderOptions.model_fields))
        return Request(**own, probe=probe, save="end" if self.save else None)


def train_all(
    name: str, configs: Sequence[Config], work: Work, probe: ProbeName | None = None
) -> list[Record | Failure]:
    """The runs' records, or why there is none; how far they are is shown on the way."""
    from bntricks.cli.dashboard import board
    from bntricks.runs.loggers import LOGGERS
    from bntricks.sweeps.local import default_workers, sweep
    from bntricks.sweeps.once import trainings
    from bntricks.sweeps.plan import seconds_left
    from bntricks.sweeps.ray import Cluster, sweep_on_ray

    for logger in work.log:
        LOGGERS.find(logger)
    if not configs:
        return []
    request = work.request(probe)
    trained = [training.config for training in trainings(configs)]
    seconds = seconds_left(configs, request, console.warnings)
    runs = f"{name}: {len(trained)} run{'s' * (len(trained) != 1)}"
    with board(configs) as sink:
        if work.ray is not None:
            console.complain(f"{runs}, {_duration(seconds)} of one core, on Ray")
            cluster = Cluster(work.ray, work.cpus_per_run, work.gpus_per_run)
            return sweep_on_ray(configs, request, cluster, sink)
        count = min(work.workers or default_workers(trained), len(trained))
        cores = f"{count} core{'s' * (count != 1)}"
        console.complain(f"{runs}, {_duration(seconds / count)} on {cores}")
        return sweep(configs, request, workers=count, sink=sink)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return "about a minute" if minutes else "less than a minute"
    return f"about {minutes} minutes" if minutes < 120 else f"about {minutes / 60:.1f} hours"
