"""Training many runs, for `bnt study` and `bnt sweep`: where, and how progress is shown."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from bntricks.cli import console
from bntricks.cli.printing import print_json
from bntricks.cli.work import Work
from bntricks.errors import LeftToOthers, counted
from bntricks.runs.config import Config
from bntricks.runs.request import ProbeName, Request

if TYPE_CHECKING:
    from bntricks.runs.record import Record
    from bntricks.sweeps.estimate import Planned
    from bntricks.sweeps.local import Failure
    from bntricks.training.events import Event, Sink


def train_all(
    name: str,
    configs: Sequence[Config],
    work: Work,
    probe: ProbeName | None = None,
    *,
    places: tuple[str, ...] = (),
    json: bool = False,
) -> list[Record | Failure] | None:
    """Train the runs, show their progress, and return their records or failures; None if others
    still train some of them, or nothing was to be trained."""
    from bntricks.runs.loggers import LOGGERS
    from bntricks.sweeps.estimate import elapsed, planned, read_costs
    from bntricks.sweeps.local import Failure, default_workers, sweep
    from bntricks.sweeps.once import finished, part_of
    from bntricks.sweeps.plan import complete
    from bntricks.sweeps.ray import Cluster, sweep_on_ray
    from bntricks.sweeps.status import known_seconds, status, write_plan

    part, turns = work.part(), work.turns(places, time.monotonic())
    costs = [] if work.costs is None else read_costs(work.costs)
    for logger in work.log:
        LOGGERS.find(logger)
    if not configs:
        return []
    request = work.request(probe)
    if not work.dry_run and (there := complete(configs, request)):
        with board(configs) as sink:
            for index, record in enumerate(there):
                sink(finished(record) | {"run": index})
        return [*there]
    known = {} if work.dry_run or costs else known_seconds(work.out)
    plan = planned(configs, request, known=known, costs=costs, sink=console.warnings)
    own, to_train = part_of(configs, part), plan[part]
    count = len(places) or work.workers or default_workers([each.config for each in to_train])
    if work.dry_run:
        show_plan(to_train, count, request, json)
        return None
    names = [
        f"{label}, seed {each.config.seed}"
        for each, label in zip(plan, labels([each.config for each in plan]), strict=True)
    ]
    with suppress(OSError):  # which a run reports in a better way
        write_plan(work.out, Path(name).stem, plan, names)
    measured = [each for each in to_train if each.cost.step_seconds]
    if measured and not costs:
        advise_bf16(max(measured, key=lambda each: each.seconds).config, request)
    runs, count = counted(len(to_train), "run"), max(1, min(count, len(to_train)))
    try:
        with board(own) as sink:
            if work.ray is not None:
                seconds = _duration(elapsed(to_train, 1))
                console.complain(f"{name}: {runs}, {seconds} of one core, on Ray")
                cluster = Cluster(work.ray, work.cpus_per_run, work.gpus_per_run)
                results = sweep_on_ray(own, request, cluster, sink, turns=turns)
            else:
                where = counted(count, "worker" if places else "core")
                seconds = _duration(elapsed(to_train, count))
                console.complain(f"{name}: {runs}, {seconds} on {where}")
                results = sweep(own, request, workers=count, turns=turns, sink=sink)
    except LeftToOthers as others:
        console.complain(f"{others}: the last one writes the report; see bnt status {work.out}")
        return None
    if work.shard is None or any(isinstance(each, Failure) for each in results):
        return results
    if left := sum(run.state != "done" for run in status(work.out, name)):
        rest = f"{counted(left, 'run')} of others left; the last one writes the report"
        console.complain(f"shard {work.shard} is done, {rest}; see bnt status {work.out}")
        return None
    return sweep(configs, request, workers=1)


def advise_bf16(config: Config, request: Request) -> None:
    """Say how much faster bfloat16 would be for this run here, if it would."""
    from bntricks.runs.describe import reset_peak_memory
    from bntricks.runs.resolve import resolve
    from bntricks.sweeps.estimate import WORTH_SAYING, bf16_share

    stream, used = resolve(config, request.data, start=request.start)
    share = bf16_share(used, stream)
    reset_peak_memory()  # which is the run's
    if share is not None and share <= WORTH_SAYING:
        console.complain(
            f"--precision bf16 would take about {share:.2f} of the time here, for a step of "
            f"{config.method}; it is another run, with other bits"
        )


def show_plan(plan: Sequence[Planned], workers: int, request: Request, json: bool) -> None:
    """Print what would be trained, with what it would take."""
    from bntricks.report.commands import command_of
    from bntricks.sweeps.estimate import elapsed, kind_of

    left = [each for each in plan if not each.there]
    commands = [command_of(each.config, request) for each in left]
    total, wall = elapsed(left, 1), elapsed(left, workers)
    if json:
        kinds = {str(kind_of(each.config)): each for each in left}
        costs = [
            kind_of(each.config)
            | {"step_seconds": each.cost.step_seconds, "memory_mb": each.cost.memory_mb}
            for each in kinds.values()
        ]
        runs = [
            {"run": each.folder.name, "command": command, "seconds": each.seconds}
            for each, command in zip(left, commands, strict=True)
        ]
        times = {"seconds": total, "workers": workers, "elapsed_seconds": wall}
        print_json({"runs": runs, "already_there": len(plan) - len(left), **times, "costs": costs})
        return
    for each, command in zip(left, commands, strict=True):
        console.say(f"{_clock(each.seconds):>9} {each.cost.memory_mb:6.0f} MB  {command}")
    console.say(
        f"{counted(len(left), 'run')} to train, {len(plan) - len(left)} already there: "
        f"{_clock(total)} in all, {_clock(wall)} with {workers} side by side, "
        "without evaluation and probes"
    )


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=math.ceil(seconds)))


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
            case "held":
                self.cells[run] = "elsewhere"
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
