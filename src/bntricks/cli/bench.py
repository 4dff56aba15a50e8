"""`bnt bench`: what things cost on this machine."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bntricks import terminal
from bntricks.cli.app import Json, app
from bntricks.cli.printing import print_json


@app.command
def bench(
    *,
    methods: Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True)] = (),
    width: Annotated[int, Parameter(validator=Number(gte=1))] = 64,
    rounds: Annotated[int, Parameter(validator=Number(gte=3))] = 15,
    json: Json = False,
) -> None:
    """Measure every method's step on this machine, as a ratio to plain PyTorch.

    The unit, raw32, is one forward, backward and SGD step of 32 images in plain PyTorch, measured
    in the same rounds. At width 64, all methods take about twenty minutes and 5 GB of memory.

    Parameters
    ----------
    methods
        Only these [default: all].
    width
        Width of the network; the bounds are meant for 64.
    rounds
        How often everything is measured, interleaved.
    json
        Print the table as one JSON object.
    """
    from bntricks.bench import bench as measure

    with terminal.progress() as sink:
        found = measure(
            methods=methods or None,
            width=width,
            rounds=rounds,
            report=lambda what, done, total: sink(
                {"event": "data", "what": what, "done": done, "total": total}
            ),
        )
    if json:
        print_json(found)
        return
    rows = [
        [
            row["name"],
            f"{row['ratio']:.2f}",
            f"{row['low']:.2f}–{row['high']:.2f}",
            "" if row["bound"] is None else f"≤ {row['bound']:g}",
            {None: "", True: "met", False: "not met"}[row["met"]],
        ]
        for row in found["rows"]
    ]
    title = f"{found['unit']}; medians of {rounds} rounds"
    header = ["step of", "× raw32", "95% interval", "to reach", ""]
    terminal.show(header, rows, title=title)
