"""`bnt study` and `bnt report`: the paper, from runs or from their records."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bntricks.cli import console
from bntricks.cli.app import Count, Json, Names, Paths, Seconds, Switch, app
from bntricks.cli.printing import print_json, raise_failures
from bntricks.paper import ScaleName, Study

if TYPE_CHECKING:
    from bntricks.report.build import Report
    from bntricks.runs.record import Record


@app.command
def study(
    name: str,
    /,
    *,
    scale: ScaleName = "lite",
    seeds: Count | None = None,
    methods: Names = (),
    streams: Annotated[Names, Parameter(name=["--streams", "--stream"])] = (),
    all: Switch = False,
    data: Path | None = None,
    out: Path = Path("runs"),
    workers: Count | None = None,
    device: str = "cpu",
    ray: str | None = None,
    cpus_per_run: Annotated[float, Parameter(validator=Number(gt=0))] = 1.0,
    gpus_per_run: Annotated[float, Parameter(validator=Number(gte=0))] = 0.0,
    checkpoint_seconds: Seconds = 120.0,
    json: Json = False,
) -> None:
    """Run a study of the paper, and say which of its claims hold.

    Studies: pilot, main, buffers, ablation, long, statistics, overlap, control, frameworks. Runs
    that are already there are not trained again, so an interrupted study continues where it
    stopped, and a run that fails does not stop the others.

    Examples:

    - `bnt study pilot --scale smoke --stream seq-digits`
    - `bnt study ablation --scale lite --data ~/data --seeds 4`
    - `bnt study main --scale paper --ray auto --device cuda --gpus-per-run 0.25`

    Parameters
    ----------
    name
        The study.
    scale
        `paper` is the full protocol, `medium` all of its data with a small network, `lite` takes
        hours on a CPU and may still show effects, `smoke` takes seconds and only proves that it
        runs.
    seeds
        Repetitions [default: the scale's].
    methods
        Only these of the study's methods; any methods for frameworks, which trains nothing.
    streams
        Only these of its streams, or other streams to run it on.
    all
        Also run what the paper left out because of its training time.
    data
        Folder with existing data [default: $BNT_DATA, or downloads].
    out
        Where runs are written, each in a folder of its own, and the report beside them.
    workers
        Runs at the same time, one thread each [default: one per core; on a GPU, one].
    device
        Where to compute: cpu, cuda, cuda:N or mps.
    ray
        Run on the Ray cluster at this address, or `auto` for the one this machine belongs to.
    cpus_per_run
        On Ray: cores reserved for each run.
    gpus_per_run
        On Ray: GPUs reserved for each run; 0.25 puts four runs on one.
    checkpoint_seconds
        Time between a run's checkpoints, in seconds.
    json
        Print results and verdicts as one JSON object.
    """
    from bntricks.cli.dashboard import board
    from bntricks.paper import load_study
    from bntricks.report.build import build
    from bntricks.sweeps.local import Failure, Shared, default_workers, sweep
    from bntricks.sweeps.plan import plan, seconds_left
    from bntricks.sweeps.ray import Request, sweep_on_ray

    chosen = load_study(name)
    if not chosen.streams:
        idle = {"--seeds": seeds, "--streams": streams, "--data": data, "--ray": ray}
        if any(idle.values()):
            given = ", ".join(flag for flag, value in idle.items() if value)
            console.complain(f"{name} draws recipes and trains nothing: {given} has no effect")
        _draw(chosen, methods, out, json)
        return
    configs = plan(
        chosen,
        scale,
        seeds=seeds,
        methods=methods,
        streams=streams,
        everything=all,
        device=device,
    )
    shared = Shared(data, out, probe=chosen.probe, checkpoint_seconds=checkpoint_seconds)
    seconds = seconds_left(configs, data, out, chosen.probe, console.warnings)
    runs = f"{name}: {len(configs)} run{'s' * (len(configs) != 1)}"
    results: list[Record | Failure] = []
    with board(configs) as sink:
        if ray is not None:
            console.complain(f"{runs}, {_duration(seconds)} of one core, on Ray")
            request = Request(ray, cpus_per_run, gpus_per_run)
            results = sweep_on_ray(configs, shared, request, sink)
        elif configs:
            count = min(workers or default_workers(configs), len(configs))
            cores = f"{count} core{'s' * (count != 1)}"
            console.complain(f"{runs}, {_duration(seconds / count)} on {cores}")
            results = sweep(configs, shared, workers=count, sink=sink)
    records = [result for result in results if not isinstance(result, Failure)]
    if records:
        # The command that repeats the study, without how this machine computes it.
        words = ["bnt", "study", name, "--scale", scale]
        words += ["--seeds", str(seeds)] if seeds else []
        words += ["--methods", *methods] if methods else []
        words += ["--streams", *streams] if streams else []
        words += ["--all"] * all
        words += ["--data", str(data)] if data else []
        command = shlex.join([*words, "--out", str(out)])
        _write_and_show(build(records, chosen, scale, command=command), out, json)
    raise_failures(results)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return "about a minute" if minutes else "less than a minute"
    return f"about {minutes} minutes" if minutes < 120 else f"about {minutes / 60:.1f} hours"


def _draw(chosen: Study, methods: tuple[str, ...], out: Path, json: bool) -> None:
    """A study without runs: pictures of recipes."""
    from bntricks.report.frameworks import ablation_columns, write_frameworks
    from bntricks.report.tables import to_json, to_rich

    page, table = write_frameworks(chosen, methods, out)
    if json:
        print_json({"page": str(page), "tables": [to_json(table)]})
        return
    console.out.print(to_rich(ablation_columns(table)))
    console.say(f"figures in {out / 'figures'}/, a page to look at: {page}")


@app.command
def report(
    runs: Paths,
    /,
    *,
    out: Path = Path("report"),
    study: str | None = None,
    scale: ScaleName = "lite",
    json: Json = False,
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
    json
        Print results and verdicts as one JSON object.
    """
    from bntricks.paper import load_study
    from bntricks.report.build import build
    from bntricks.report.records import load_records

    records = load_records(runs)
    chosen = None if study is None else load_study(study)
    words = ["bnt", "report", *map(str, runs), "--out", str(out)]
    words += ["--study", study, "--scale", scale] if study else []
    judged = None if chosen is None else scale
    _write_and_show(build(records, chosen, judged, command=shlex.join(words)), out, json)


def _write_and_show(report: Report, out: Path, json: bool) -> None:
    """Results as the paper prints them, and verdicts if the study makes any claims."""
    from bntricks.report.files import write
    from bntricks.report.tables import fitted, terminal_width, to_json, to_rich

    page = write(report, out)
    if json:
        print_json({"page": str(page), "tables": [to_json(table) for table in report.tables]})
        return
    printed = [report.form, *([report.verdict_table] if report.verdict_table else [])]
    for table in printed:
        for part in fitted(table, console.out.width, terminal_width):
            console.out.print(to_rich(part))
    for line in report.overview.missing:
        console.say(f"missing: {line}")
    console.say(f"tables and figures in {page.parent}/, a page to look at: {page}")
