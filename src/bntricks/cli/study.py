"""`bnt study` and `bnt report`: the paper, from runs or from their records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bntricks import terminal
from bntricks.cli.app import Switch, app
from bntricks.cli.printing import raise_failures
from bntricks.paper import ScaleName


@app.command
def study(
    name: str,
    /,
    *,
    scale: ScaleName = "lite",
    seeds: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    methods: Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True)] = (),
    streams: Annotated[
        tuple[str, ...],
        Parameter(name=["--streams", "--stream"], negative=(), consume_multiple=True),
    ] = (),
    all: Switch = False,
    data: Path | None = None,
    out: Path = Path("runs"),
    workers: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
) -> None:
    """Run a study of the paper, and say which of its claims hold.

    Studies: pilot, main, buffers, ablation, long, statistics, overlap, control, frameworks. Runs
    that are already there are not trained again, so an interrupted study goes on where it was,
    and a run that fails does not stop the others.

    Parameters
    ----------
    name
        The study.
    scale
        `paper` is the full protocol, `lite` a CPU-sized one that still shows effects, `smoke` takes
        seconds and only proves that it runs.
    seeds
        Repetitions [default: the scale's].
    methods
        Only these of the study's methods.
    streams
        Only these of its streams, or others to move it to.
    all
        Also what the paper left out for its training time.
    data
        Folder with existing data [default: $BNT_DATA, or downloads].
    out
        Where runs are written, each in a folder of its own, and the report beside them.
    workers
        Runs at the same time, one thread each [default: one a core].
    """
    from bntricks.paper import load_study
    from bntricks.report import write_report
    from bntricks.report.results import results_table, verdict_table
    from bntricks.report.tables import to_rich
    from bntricks.report.verdicts import verdicts
    from bntricks.study import plan, seconds_left
    from bntricks.sweep import Failure, available_cores, sweep

    chosen = load_study(name)
    configs = plan(chosen, scale, seeds=seeds, methods=methods, streams=streams, everything=all)
    count = min(workers or available_cores(), max(len(configs), 1))
    minutes = seconds_left(configs, data, out) / count / 60
    terminal.complain(f"{name}: {len(configs)} runs, about {minutes:.0f} minutes on {count} cores")
    names = [f"{config.method} on {config.stream}, seed {config.seed}" for config in configs]
    with terminal.sweep_progress(names) as sink:
        results = sweep(configs, data=data, out=out, workers=count, sink=sink) if configs else []
    records = [result for result in results if not isinstance(result, Failure)]
    if records:
        command = f"bnt study {name} --scale {scale}"
        page = write_report(records, out, chosen, scale, command=command)
        terminal.out.print(to_rich(results_table(records, chosen, scale)))
        if chosen.claims:
            judged = verdict_table(verdicts(chosen, scale, records), records)
            terminal.out.print(to_rich(judged))
        print(f"tables and figures in {out}/, a page to look at: {page}")
    raise_failures(results)


@app.command
def report(
    runs: Annotated[tuple[Path, ...], Parameter(negative=())],
    /,
    *,
    out: Path = Path("report"),
    study: str | None = None,
    scale: ScaleName = "lite",
) -> None:
    """Write tables, figures and a page from records alone; nothing is trained.

    Tables are Markdown, CSV and LaTeX, figures are SVG, PDF and PNG with the numbers behind them,
    and the page is one file that works offline. Runs of different protocols are kept apart.

    Parameters
    ----------
    runs
        Folders with runs, or record.json files.
    out
        Where to write.
    study
        Judge the claims of this study of the paper too.
    scale
        The scale the study was run at.
    """
    from bntricks.paper import load_study
    from bntricks.report import write_report
    from bntricks.report.records import load_records
    from bntricks.report.results import results_table
    from bntricks.report.tables import to_rich

    records = load_records(runs)
    chosen = None if study is None else load_study(study)
    page = write_report(records, out, chosen, None if chosen is None else scale)
    terminal.out.print(to_rich(results_table(records, chosen, None if chosen is None else scale)))
    print(f"tables and figures in {out}/, a page to look at: {page}")
