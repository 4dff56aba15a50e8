"""`bnt demo`: the main job, on embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bntricks.cli import console as terminal
from bntricks.cli.app import Json, Switch, app
from bntricks.cli.printing import print_json, raise_failures, spread


@app.command
def demo(
    *,
    quick: Switch = False,
    seeds: Annotated[int, Parameter(validator=Number(gte=1))] = 3,
    workers: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    out: Path = Path("runs"),
    json: Json = False,
) -> None:
    """Compare SGD, ER, ER-Cur+Buf, ER-BNT and Joint on embedded digits; nothing is downloaded.

    Takes a few minutes on two cores. Runs that are already there are not trained again, so an
    interrupted demo goes on where it was.

    Parameters
    ----------
    quick
        Train only so long that everything has run once: too short to show the effect.
    seeds
        Repetitions of each method; the table shows their mean and standard deviation.
    workers
        Runs at the same time [default: one a core].
    out
        Where runs are written, each in a folder of its own.
    json
        Print the table as one JSON object.
    """
    from bntricks.cli.dashboard import board
    from bntricks.cli.demo_plan import plan, summary
    from bntricks.report import write_report
    from bntricks.sweeps.local import Failure, Order, sweep

    configs = plan(seeds=seeds, quick=quick)
    with board(configs) as sink:
        results = sweep(configs, Order(out=out), workers=workers, sink=sink)
    records = [result for result in results if not isinstance(result, Failure)]
    rows = summary(records)
    note = "too short to show the effect; run without --quick" if quick else None
    if json:
        print_json({"rows": rows, "note": note, "path": str(out)})
    elif records:
        cells = [
            [
                row["method"],
                spread(row["acc"]),
                spread(row["bwt"]),
                f"{row['forwards_per_step']:.2f}",
            ]
            for row in rows
        ]
        title = f"seq-digits, mean ± standard deviation over {seeds} seeds"
        terminal.show(["method", "ACC", "BWT", "forwards/step"], cells, title=title)
        page = write_report(records, out, title="bntricks demo", command="bnt demo")
        print(
            *([f"({note})"] if note else []),
            f"results in {out}/, a page to look at: {page}",
            sep="\n",
        )
    raise_failures(results)
