"""Measure what things cost on this machine, as ratios to plain PyTorch in the same rounds.

    python benchmarks/bench.py
    python benchmarks/bench.py --parts steps --methods er er-bnt --json

Each ratio is the median over rounds that measure both sides one after the other, in CPU time of one
thread. At width 64 everything takes one to two hours and 5 GB of memory; --parts and --methods
narrow it down. Ctrl-C shows the parts measured so far. `benchmarks/README.md` says how each is
measured and how to read it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import torch

from bntricks.cli import console
from bntricks.cli.app import flag, import_all
from bntricks.errors import PlannedError
from bntricks.methods import find
from bntricks.streams import OnProgress
from bntricks.streams.files.progress import silent
from bntricks.training.backend import keep_freed_memory
from costs.allocator import memory_kept
from costs.checkpoint import checkpoint
from costs.epochs import epochs
from costs.evaluation import evaluation, herding
from costs.growth import GrowthSettings, measure_growth
from costs.norms import norms
from costs.scaling import ScalingSettings, measure_scaling
from costs.settings import Settings
from costs.start_up import start_up
from costs.steps import steps
from costs.timing import Row

PARTS = {
    "steps": steps,
    "epochs": epochs,
    "evaluation": evaluation,
    "herding": herding,
    "checkpoint": checkpoint,
    "start-up": start_up,
    "memory-kept": memory_kept,
}
FEWEST_ROUNDS = 6
"""Fewer give no 95% interval."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(arguments)
    rows: list[dict[str, Any]] = []
    try:
        import_all(options.imports)
        settings, measured = chosen(options)
        with console.reporting() as report:
            for row in measured(report=report):
                rows.append(asdict(row))
    except PlannedError as error:
        sys.exit(f"bench: {error.worded(flag)}")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:  # an interrupt keeps the parts that were measured
        if rows and options.json:
            print(json.dumps({**asdict(settings), "torch": version("torch"), "rows": rows}))
        elif rows:
            show(rows, options.rounds)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--parts", nargs="+", default=(), choices=PARTS, help="measure only these")
    add("--methods", nargs="+", default=(), help="methods whose steps are measured")
    add("--width", type=int, help="width of the network [default: 64, which the bounds are for]")
    add("--rounds", type=int, default=15, help="how often everything is measured, interleaved")
    add("--norms", action="store_true", help="instead, a step of ER with each normalisation")
    add(
        "--scaling",
        action="store_true",
        help="instead, a small study with one worker, two workers and two threads, and a worker's "
        "memory: needs two idle cores for most of an hour",
    )
    add(
        "--growth",
        action="store_true",
        help="instead, how a step, an evaluation, a checkpoint and memory grow with tasks, "
        "classes, stored images and the size of images",
    )
    add("--import", dest="imports", action="append", default=[], help="a Python file of yours")
    add("--json", action="store_true", help="print the table as one JSON object")
    options = parser.parse_args(arguments)
    if options.rounds < FEWEST_ROUNDS:
        parser.error(f"--rounds {options.rounds}: give at least {FEWEST_ROUNDS}")
    if options.width is not None and options.width < 1:
        parser.error(f"--width {options.width}: give at least 1")
    if options.norms + options.scaling + options.growth > 1:
        parser.error("--norms, --scaling and --growth are measured one at a time")
    if (options.norms or options.scaling) and (options.parts or options.methods):
        parser.error("--norms and --scaling are measured without --parts and --methods")
    if options.scaling and options.width is not None:
        parser.error(f"--scaling has a study's own width: leave out --width {options.width}")
    if options.growth and options.parts:
        parser.error("--growth is measured without --parts")
    return options


def chosen(options: argparse.Namespace) -> tuple[Any, Callable[..., Iterator[Row]]]:
    """What is measured, and the function of a report that measures it."""
    width, rounds, methods = options.width or 64, options.rounds, tuple(options.methods)
    for name in methods:
        find(name)
    settings: Any
    if options.growth:
        settings = GrowthSettings(width=width, rounds=rounds)
        settings = replace(settings, methods=methods or settings.methods)
        return settings, partial(measure_growth, settings)
    if options.scaling:
        settings = ScalingSettings(rounds=rounds)
        return settings, partial(measure_scaling, settings)
    settings = Settings(width=width, rounds=rounds, methods=methods)
    return settings, partial(
        measure, settings, parts=("norms",) if options.norms else options.parts
    )


def measure(
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    parts: Sequence[str] = (),
    report: OnProgress = silent,
) -> Iterator[Row]:
    """The rows of these parts, or of all, part by part as they are measured."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    keep_freed_memory()  # as a run does; it serves both sides
    try:
        for part in parts or PARTS:
            yield from (PARTS | {"norms": norms})[part](settings, report)
    finally:
        torch.set_num_threads(threads)


def show(rows: list[dict[str, Any]], rounds: int) -> None:
    cells = [
        [
            row["part"],
            row["name"],
            f"{row['ratio']:.4g}" if row["ratio"] >= 10 else f"{row['ratio']:.3f}",
            "" if row["low"] == row["high"] else f"{row['low']:.3f}–{row['high']:.3f}",
            row["unit"],
            "" if row["bound"] is None else f"≤ {row['bound']:g}",
            {None: "", True: "met", False: "not met"}[row["met"]],
            row["note"],
        ]
        for row in rows
    ]
    header = ["", "of", "median", "95% interval", "", "to reach", "", ""]
    console.show(header, cells, title=f"medians of {rounds} rounds")


if __name__ == "__main__":
    main()
