"""`bnt bench`: what things cost on this machine."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from bntricks import terminal
from bntricks.cli.app import Json, Switch, app
from bntricks.cli.printing import print_json
from bntricks.errors import UserError

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
    `--methods` choose.

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
        worker's memory. Wants two idle cores and half an hour.
    json
        Print the table as one JSON object.
    """
    if scaling and (parts or methods or width is not None):
        raise UserError("--scaling is a study of its own: leave out --parts, --methods and --width")
    with terminal.progress() as sink:

        def report(what: str, done: int, total: int) -> None:
            sink({"event": "data", "what": what, "done": done, "total": total})

        if scaling:
            from bntricks.bench.scaling import Study
            from bntricks.bench.scaling import bench as measure_scaling

            found = measure_scaling(Study(rounds=rounds), report)
        else:
            from bntricks.bench import Setting
            from bntricks.bench import bench as measure

            setting = Setting(width=width or 64, rounds=rounds, methods=methods)
            found = measure(setting, parts=parts, report=report)
    if json:
        print_json(found)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
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
        for row in found["rows"]
    ]
    header = ["", "of", "median", "95% interval", "", "to reach", "", ""]
    terminal.show(header, rows, title=f"medians of {found['rounds']} rounds")
