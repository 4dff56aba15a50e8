"""`bnt bench`: what things cost on this machine."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from bntricks.cli import console
from bntricks.cli.app import Count, Imports, Json, Names, Switch, app, import_all, whole
from bntricks.cli.printing import print_json
from bntricks.errors import UserError

Part = Literal["steps", "epochs", "evaluation", "herding", "checkpoint", "start-up", "memory-kept"]


@app.command
def bench(
    *,
    parts: Annotated[tuple[Part, ...], Parameter(negative=(), consume_multiple=True)] = (),
    methods: Names = (),
    width: Count | None = None,
    rounds: Annotated[int, whole(gte=6)] = 15,
    norms: Switch = False,
    scaling: Switch = False,
    imports: Imports = (),
    json: Json = False,
) -> None:
    """Measure this machine: steps, epochs, evaluation and more, as ratios to plain PyTorch.

    Each ratio is the median over rounds that measure both sides one after the other, in CPU time
    of one thread. At width 64 everything takes one to two hours and 5 GB of memory; `--parts` and
    `--methods` narrow it down. Ctrl-C shows the parts measured so far.

    Parameters
    ----------
    parts
        Measure only these [default: all].
    methods
        Methods whose steps are measured [default: all].
    width
        Width of the network [default: 64, which the bounds are for].
    rounds
        How often everything is measured, interleaved; fewer than six give no 95% interval.
    norms
        Instead, measure a step of ER with each normalisation, as a ratio to BatchNorm.
    scaling
        Instead, train a small study with one worker, two workers, and two threads, and measure a
        worker's memory. Needs two idle cores for most of an hour.
    json
        Print the table as one JSON object.
    """
    import_all(imports)
    if norms and (parts or methods or scaling):
        raise UserError("--norms is measured by itself: leave out --parts, --methods and --scaling")
    if scaling and (parts or methods or width is not None):
        raise UserError("--scaling is a study of its own: leave out --parts, --methods and --width")
    if scaling:
        from bntricks.bench.scaling import ScalingSettings, measure_scaling

        settings: Any = ScalingSettings(rounds=rounds)
        measure_rows = partial(measure_scaling, settings)
    else:
        from bntricks.bench import Settings, measure

        settings = Settings(width=width or 64, rounds=rounds, methods=methods)
        measure_rows = partial(measure, settings, parts=("norms",) if norms else parts)
    rows: list[dict[str, Any]] = []
    try:
        with console.reporting() as report:
            for row in measure_rows(report=report):
                rows.append(asdict(row))
    finally:  # an interrupt keeps the parts that were measured
        if rows and json:
            print_json({**asdict(settings), "torch": version("torch"), "rows": rows})
        elif rows:
            _show(rows, rounds)


def _show(rows: list[dict[str, Any]], rounds: int) -> None:
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
