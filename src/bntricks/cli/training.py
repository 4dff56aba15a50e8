"""Training many runs, for `bnt study` and `bnt sweep`: where, and how progress is shown."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, ClassVar

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from bntricks.cli import console
from bntricks.cli.app import Count, declare_flags
from bntricks.options import Option
from bntricks.runs.config import Config
from bntricks.runs.request import FolderOptions, ProbeName, Request

if TYPE_CHECKING:
    from bntricks.runs.record import Record
    from bntricks.sweeps.local import Failure
    from bntricks.training.events import Event, Sink


@declare_flags
class Work(FolderOptions):
    """Options: where many runs are trained, and what is written of each."""

    shown_in: ClassVar[str] = "Where it is computed"

    workers: Count | None = None
    """Runs at the same time, one thread each [default: one per core; on a GPU, one]."""
    ray: str | None = None
    """Run on the Ray cluster at this address, or `auto` for the one this machine belongs to."""
    cpus_per_run: Annotated[float, Parameter(validator=Number(gt=0)), Option(rare=True)] = 1.0
    """On Ray: cores reserved for each run."""
    gpus_per_run: Annotated[float, Parameter(validator=Number(gte=0)), Option(rare=True)] = 0.0
    """On Ray: GPUs reserved for each run; 0.25 puts four runs on one."""
    save: Annotated[bool, Option(panel="Output")] = False
    """Write each trained network into its run's folder, as `model.safetensors`."""

    def request(self, probe: ProbeName | None) -> Request:
        """Make the request of each run."""
        own = self.model_dump(include=set(FolderOptions.model_fields))
        return Request(**own, probe=probe, save="end" if self.save else None)


def train_all(
    name: str, configs: Sequence[Config], work: Work, probe: ProbeName | None = None
) -> list[Record | Failure]:
    """Train the runs, show their progress, and return their records or failures."""
    from bntricks.runs.loggers import LOGGERS
    from bntricks.sweeps.local import default_workers, sweep
    from bntricks.sweeps.once import finished, trainings
    from bntricks.sweeps.plan import complete, seconds_left
    from bntricks.sweeps.ray import Cluster, sweep_on_ray

    for logger in work.log:
        LOGGERS.find(logger)
    if not configs:
        return []
    request = work.request(probe)
    if there := complete(configs, request):
        with board(configs) as sink:
            for index, record in enumerate(there):
                sink(finished(record) | {"run": index})
        return [*there]
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


def labels(configs: Sequence[Config]) -> list[str]:
    """Name each run without its seed: by its method, its stream, and whatever else differs."""
    values = [{**config.model_dump(mode="json"), **config.hyper} for config in configs]
    always_named = ("method", "stream", "seed", "hyper")
    varying = [
        key
        for key in dict.fromkeys(key for each in values for key in each)
        if key not in always_named and any(each.get(key) != values[0].get(key) for each in values)
    ]
    return [
        f"{each['method']} on {each['stream']}"
        + "".join(
            f", {key.replace('_', ' ')} {each[key]}" for key in varying if each.get(key) is not None
        )
        for each in values
    ]


class Board:
    """A live table of all runs: a row for each kind of run, a column for each seed, and the time
    left."""

    def __init__(self, configs: Sequence[Config]) -> None:
        self.labels = labels(configs)
        self.seeds = [config.seed for config in configs]
        self.shares = [0.0] * len(configs)
        self.cells = ["·"] * len(configs)
        self.already_there = 0
        self.start = time.monotonic()

    def take(self, event: Event) -> str | None:
        """Take in an event; return the line to print if it ends a run or warns."""
        run, name = event["run"], f"{self.labels[event['run']]}, seed {self.seeds[event['run']]}"
        match event["event"]:
            case "progress" | "epoch" | "resumed":
                self.shares[run] = event["step"] / event["steps"]
                self.cells[run] = f"{self.shares[run]:.0%}"
            case "warning":
                return f"{name}: {event['text']}"
            case "finished":
                self.shares[run] = 1.0
                self.already_there += event["already_there"]
                self.cells[run] = f"[bold]{event['acc']:.1f}[/]"
                bwt = "" if event["bwt"] is None else f"  BWT {event['bwt']:6.1f}"
                suffix = "  (already there)" if event["already_there"] else ""
                return f"{name:32} ACC {event['acc']:5.1f}{bwt}{suffix}"
        return None

    def __rich__(self) -> Group:
        seeds = sorted(set(self.seeds))
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("ACC, or how far the run is")
        for seed in seeds:
            table.add_column(f"seed {seed}", justify="right")
        runs = zip(self.labels, self.seeds, self.cells, strict=True)
        cells = {(label, seed): cell for label, seed, cell in runs}
        for label in dict.fromkeys(self.labels):
            table.add_row(escape(label), *(cells.get((label, seed), "") for seed in seeds))
        return Group(table, self.summary())

    def summary(self) -> str:
        done = sum(share == 1.0 for share in self.shares)
        text = f"{done} of {len(self.shares)} runs"
        trained = sum(self.shares) - self.already_there
        remaining = len(self.shares) - sum(self.shares)
        if trained > 0 and remaining > 0:
            seconds = (time.monotonic() - self.start) * remaining / trained
            hours, minutes = divmod(round(seconds / 60), 60)
            text += f", about {hours}:{minutes:02} hours left"
        return text


@contextmanager
def board(configs: Sequence[Config]) -> Iterator[Sink]:
    """Yield a sink for the events of these runs, shown until the end. Without a terminal, it prints
    a line for each finished run, and now and then the progress of all."""
    table, live, silence = Board(configs), console.err.is_terminal, console.Silence()

    def update(event: Event) -> None:
        line = table.take(event)
        if not live and (line or silence.over()):
            silence.end()
            console.err.print(line or table.summary(), markup=False, soft_wrap=True)
        elif line and event["event"] == "warning":
            console.err.print(line, markup=False)

    shown = Live(table, console=console.err, transient=True, refresh_per_second=2)
    with shown if live else nullcontext():
        yield update
