"""`bnt bench`: what things cost on this machine."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from bntricks.cli import console
from bntricks.cli.app import Json, Switch, app
from bntricks.cli.printing import print_json
from bntricks.errors import UserError

if TYPE_CHECKING:
    from bntricks.training.progress import Sink

Part = Literal["steps", "epochs", "evaluation", "herding", "checkpoint", "start-up", "memory-kept"]


@app.command
def bench(
    *,
    parts: Annotated[tuple[Part, ...], Parameter(negative=(), consume_multiple=True)] = (),
    methods: Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True)] = (),
    width: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    rounds: Annotated[int, Parameter(validator=Number(gte=6))] = 15,
    scaling: Switch = False,
    json: Json = False,
) -> None:
    """Measure this machine: steps, epochs, evaluation and more, as ratios to plain PyTorch.

    Each ratio is the median over rounds that measure both sides one after the other, in CPU time
    of one thread. At width 64 everything takes one to two hours and 5 GB of memory; `--parts` and
    `--methods` choose. Ctrl-C shows the parts measured so far.

    Parameters
    ----------
    parts
        Only these [default: all].
    methods
        Whose steps are measured [default: all].
    width
        Width of the network [default: 64, for which the bounds are meant].
    rounds
        How often everything is measured, interleaved; fewer than six make no 95% interval.
    scaling
        Instead, train a small study with one worker, two workers, and two threads, and measure a
        worker's memory. Wants two idle cores for most of an hour.
    json
        Print the table as one JSON object.
    """
    if scaling and (parts or methods or width is not None):
        raise UserError("--scaling is a study of its own: leave out --parts, --methods and --width")
    if scaling:
        from bntricks.bench.scaling import ScalingSettings, measure_scaling

        settings: Any = ScalingSettings(rounds=rounds)
        measured = partial(measure_scaling, settings)
    else:
        from bntricks.bench import Settings, measure

        settings = Settings(width=width or 64, rounds=rounds, methods=methods)
        measured = partial(measure, settings, parts=parts)
    rows: list[dict[str, Any]] = []
    try:
        with console.progress() as sink:
            for row in measured(report=partial(_tell, sink)):
                rows.append(asdict(row))
    finally:  # an interrupt keeps the parts that were measured
        if rows and json:
            print_json({**asdict(settings), "torch": version("torch"), "rows": rows})
        elif rows:
            _show(rows, rounds)


def _tell(sink: Sink, what: str, done: int, total: int) -> None:
    sink({"event": "data", "what": what, "done": done, "total": total})


def _show(found: list[dict[str, Any]], rounds: int) -> None:
    rows = [
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
        for row in found
    ]
    header = ["", "of", "median", "95% interval", "", "to reach", "", ""]
    console.show(header, rows, title=f"medians of {rounds} rounds")
