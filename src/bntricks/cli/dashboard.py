"""One live table of all runs of a sweep: a row for each kind of run, a column for each seed, and
the time that remains. Without a terminal, a line for each run when it is finished."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from bntricks.cli import console
from bntricks.runs.config import Config

if TYPE_CHECKING:
    from bntricks.training.events import Event, Sink


def labels(configs: Sequence[Config]) -> list[str]:
    """A name for each run without its seed: its method, its stream, and whatever else differs
    and is set."""
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
    """What is known about each run, and how it is shown."""

    def __init__(self, configs: Sequence[Config]) -> None:
        self.labels = labels(configs)
        self.seeds = [config.seed for config in configs]
        self.shares = [0.0] * len(configs)
        self.cells = ["·"] * len(configs)
        self.already_there = 0
        self.start = time.monotonic()

    def take(self, event: Event) -> str | None:
        """Note an event; the line to print if it ends a run or warns."""
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
        return Group(table, self._summary())

    def _summary(self) -> str:
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
    """A sink for the events of these runs, shown while the context lasts."""
    table, live = Board(configs), console.err.is_terminal

    def update(event: Event) -> None:
        line = table.take(event)
        if line and (event["event"] == "warning" or not live):
            console.err.print(line, markup=False, soft_wrap=not live)

    shown = Live(table, console=console.err, transient=True, refresh_per_second=2)
    with shown if live else nullcontext():
        yield update
