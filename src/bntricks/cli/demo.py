"""`bnt demo`: what BatchNorm costs replay, and what BN Tricks gains, on embedded data.

The configuration was chosen so that learning is real in minutes on two cores: digits enlarged to
16×16, because an 8×8 image is a single pixel after three strided stages and a small batch then
normalises to ±1; a small memory, because with a large one plain replay has nothing left to lose;
and several hundred steps a task, because φ matters only once the network has settled.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from bntricks.cli import console
from bntricks.cli.app import Count, Json, Switch, app
from bntricks.cli.printing import print_json, raise_failures, spread
from bntricks.runs.config import Config

if TYPE_CHECKING:
    from bntricks.runs.record import Record

METHODS = ("sgd", "er", "er-cur+buf", "er-bnt", "joint")


@app.command
def demo(
    *,
    quick: Switch = False,
    seeds: Count = 3,
    workers: Count | None = None,
    out: Path = Path("runs"),
    json: Json = False,
) -> None:
    """Compare SGD, ER, ER-Cur+Buf, ER-BNT and Joint on embedded digits; nothing is downloaded.

    Takes a few minutes on two cores. Runs that are already there are not trained again, so an
    interrupted demo continues where it stopped.

    Parameters
    ----------
    quick
        Train just long enough for everything to run once: too short to show the effect.
    seeds
        Repetitions of each method; the table shows their mean and standard deviation.
    workers
        Runs at the same time [default: one per core].
    out
        Where runs are written, each in a folder of its own.
    json
        Print the table as one JSON object.
    """
    from bntricks.cli.dashboard import board
    from bntricks.report import write_report
    from bntricks.sweeps.local import Failure, Shared, sweep

    configs = plan(seeds=seeds, quick=quick)
    with board(configs) as sink:
        results = sweep(configs, Shared(out=out), workers=workers, sink=sink)
    records = [result for result in results if not isinstance(result, Failure)]
    rows = summary(records)
    note = "too short to show the effect; run without --quick" if quick else None
    if json:
        print_json({"rows": rows, "note": note, "path": str(out)})
    elif records:
        cells = [
            [r["method"], spread(r["acc"]), spread(r["bwt"]), f"{r['forwards_per_step']:.2f}"]
            for r in rows
        ]
        title = f"seq-digits, mean ± standard deviation over {seeds} seeds"
        console.show(["method", "ACC", "BWT", "forwards/step"], cells, title=title)
        page = write_report(records, out, title="bntricks demo", command="bnt demo")
        if note:
            console.say(f"({note})")
        console.say(f"results in {out}/, a page to look at: {page}")
    raise_failures(results)


def plan(*, seeds: int, quick: bool) -> list[Config]:
    """Every method with every seed, seeds outermost, so that early results already compare."""
    return [
        Config(
            method=method,
            stream="seq-digits",
            seed=seed,
            image_size=16,
            images_per_class=128,  # whole batches: no last one of a few images moves φ
            width=8,
            blocks=1,
            stages=3,
            memory=20,
            epochs=4 if quick else 60,
        )
        for seed in range(seeds)
        for method in METHODS
    ]


def summary(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Mean and sample standard deviation over seeds, one row per method."""
    by_method: dict[str, list[Record]] = {}
    for record in records:
        by_method.setdefault(record.method, []).append(record)
    return [
        {
            "method": method,
            "seeds": len(runs),
            "acc": _mean_and_sd([record.acc for record in runs]),
            "bwt": _mean_and_sd([record.bwt for record in runs]),
            "forwards_per_step": mean(record.forwards_per_step for record in runs),
        }
        for method, runs in by_method.items()
    ]


def _mean_and_sd(values: list[float | None]) -> dict[str, float | None] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": mean(known), "sd": stdev(known) if len(known) > 1 else None}
