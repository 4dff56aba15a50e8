"""`bnt study` and `bnt report`: a study, from runs or from their records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import BaseModel, ConfigDict, Field, create_model

from bntricks.cli import console
from bntricks.cli.app import Imports, In, Json, Names, Paths, Seeds, Switch, app, flag, import_all
from bntricks.cli.printing import print_json, raise_failures
from bntricks.cli.training import train_all
from bntricks.cli.work import Work
from bntricks.files import command_line, commit, held
from bntricks.paper import ScaleName, Study
from bntricks.runs.config import Config
from bntricks.runs.record.file import NAME

if TYPE_CHECKING:
    from bntricks.report.build import Report
    from bntricks.runs.record import Record

COPY, PAGE = "study.toml", "report.html"
"""Beside the runs: a study of the user's own, and its page."""


def _option(name: str) -> Any:
    """Make an optional version of a run's option."""
    field = Config.model_fields[name]
    parameters = [each for each in field.metadata if isinstance(each, Parameter)]
    parameters += [In.other_protocol, Parameter(show_default=False)]
    kind: Any = Annotated[(field.annotation | None, *parameters)]  # type: ignore[operator]
    return kind, Field(default=None, description=field.description)


if TYPE_CHECKING:
    Protocol = BaseModel
else:
    Protocol = create_model(
        "Protocol",
        __config__=ConfigDict(frozen=True, extra="forbid"),
        **{name: _option(name) for name in Config.model_fields if Config.role(name).study_flag},
    )


@app.command
def study(
    name: str,
    /,
    *,
    scale: Annotated[ScaleName | None, In.learned] = None,
    seeds: Annotated[Seeds | None, In.learned] = None,
    methods: Annotated[Names, In.learned] = (),
    streams: Annotated[Names, Parameter(name=["--streams", "--stream"]), In.learned] = (),
    all: Annotated[Switch, In.learned] = False,
    device: Annotated[str, In.computed] = "cpu",
    work: Annotated[Work, Parameter(name="*")] = Work(),  # noqa: B008 (frozen)
    imports: Annotated[Imports, In.learned] = (),
    metrics: Annotated[Names, In.output] = (),
    json: Annotated[Json, In.output] = False,
    protocol: Annotated[Protocol, Parameter(name="*")] = Protocol(),  # noqa: B008 (frozen)
) -> None:
    """Run a study, and say which of its claims hold.

    Studies, besides your own: pilot, main, buffers, ablation, long, statistics, overlap, control,
    exemplars, exemplars-memory, phi-share, rehearsal-free, precision, norms, norms-online, bias,
    trackers, frameworks. Runs that are already there are not trained again, so an interrupted study
    continues where it stopped, and a run that fails does not stop the others. The same command may
    be given several times at once, on any machines that share `--out`: each takes runs that nobody
    holds, and the last writes the report. `bnt status` shows how far they are.

    Examples:

    - `bnt study pilot --scale smoke --stream seq-digits`
    - `bnt study ablation --scale lite --data ~/data --seeds 4`
    - `bnt study main --scale paper --devices auto --per-device 4 --dry-run`
    - `bnt study main --scale paper --ray auto --device cuda --gpus-per-run 0.25`
    - `bnt study main --import my.py --methods er my-method --lr 0.1`

    Parameters
    ----------
    name
        The study, or a TOML file that describes one of your own.
    scale
        `paper` is the full protocol, `medium` all of its data with a small network, `lite` takes
        hours on a CPU and may still show effects, `smoke` takes seconds and only proves that it
        runs [default: lite].
    seeds
        Repetitions [default: the scale's].
    methods
        Only these methods, which need not be the study's own.
    streams
        Only these of its streams, or other streams to run it on.
    all
        Also run what the paper left out because of its training time.
    device
        Where to compute: cpu, cuda, cuda:N or mps.
    metrics
        The columns of the results, such as `acc average_incremental task_il_acc` [default: acc bwt
        forgetting]; `docs/metrics.md` has all.
    json
        Print results and verdicts as one JSON object.
    """
    from bntricks.networks.registry import check_named
    from bntricks.paper import load_study
    from bntricks.report.build import build
    from bntricks.report.commands import words_of
    from bntricks.runs.metrics import chosen as chosen_metrics
    from bntricks.runs.record.file import first_training
    from bntricks.sweeps.local import Failure
    from bntricks.sweeps.plan import plan

    began = datetime.now(UTC).replace(microsecond=0)
    import_all(imports)
    chosen, columns = load_study(name), chosen_metrics(metrics)
    own_study = Path(name).expanduser().read_bytes() if name.endswith(".toml") else None
    options = protocol.model_dump(exclude_none=True)
    if not chosen.streams:
        idle = {"seeds": seeds, "streams": streams, "data": work.data, "ray": work.ray, **options}
        if any(idle.values()):
            given = ", ".join(flag(option) for option, value in idle.items() if value)
            console.complain(f"{name} draws recipes and trains nothing: {given} has no effect")
        _draw(chosen, methods, work.out, json)
        return
    scale = chosen.checked_scale(scale)
    device, places = work.placed(device)
    configs = plan(
        chosen,
        scale,
        seeds=seeds,
        methods=methods,
        streams=streams,
        everything=all,
        device=device,
        options=options,
    )
    for config in configs if own_study is not None else ():
        check_named(config.net, options.get("net"), Path(name))
    results = train_all(name, configs, work, chosen.probe, places=places, json=json)
    if results is None:
        return
    records = [first_training(r) for r in results if not isinstance(r, Failure)]
    if records:
        # The command that repeats the study, without how this machine computes it.
        words = ["bnt", "study", name, "--scale", scale]
        words += [word for own in imports for word in ("--import", own)]
        words += ["--seeds", str(seeds)] if seeds else []
        words += ["--methods", *methods] if methods else []
        words += ["--streams", *streams] if streams else []
        words += ["--metrics", *metrics] if metrics else []
        words += [word for option, value in options.items() for word in words_of(option, value)]
        words += ["--all"] * all
        words += ["--data", str(work.data)] if work.data else []
        command = command_line([*words, "--out", str(work.out)])
        report = build(records, chosen, scale, command=command, metrics=columns)
        with held(work.out, lock=work.out / f".{PAGE}.lock", wait=True):
            done = _is_written(records, work.out, began)
            _write_and_show(report, work.out, json, done=done)
            if own_study is not None:  # so that `bnt report` can judge its claims again
                commit({work.out / COPY: own_study})
    raise_failures(results)


def _is_written(records: Sequence[Record], out: Path, began: datetime) -> bool:
    """Whether another process has written the report since the last run was finished. Only one that
    has awaited runs of others may rely on that: nobody else's options need be the same."""
    if not any(r.already_there and r.finished and r.finished >= began for r in records):
        return False
    files = [record.path / NAME for record in records if record.path]
    newest = max(path.stat().st_mtime for path in files)
    return (out / PAGE).is_file() and (out / PAGE).stat().st_mtime >= newest


def _draw(chosen: Study, methods: tuple[str, ...], out: Path, json: bool) -> None:
    """Write the study without runs: pictures of recipes."""
    from bntricks.report.diagrams.frameworks import ablation_columns, write_frameworks
    from bntricks.report.tables.table import to_json, to_rich

    page, table = write_frameworks(chosen, methods, out)
    if json:
        print_json({"page": str(page), "tables": [to_json(table)]})
        return
    console.out.print(to_rich(ablation_columns(table)))
    console.say(f"figures in {out / 'figures'}/, page written to {page}")


@app.command
def report(
    runs: Paths,
    /,
    *,
    out: Path = Path("report"),
    study: str | None = None,
    scale: ScaleName | None = None,
    metrics: Names = (),
    json: Json = False,
) -> None:
    """Write tables, figures and a page from records.

    Nothing is trained. Tables are Markdown, CSV and LaTeX, figures are SVG, PDF and PNG with the
    numbers behind them, and the page is one file that works offline. Runs of different protocols
    are kept apart.

    Examples:

    - `bnt report runs --out report`

    Parameters
    ----------
    runs
        Folders with runs, or record.json files.
    out
        Where to write.
    study
        Report the runs of this study alone, and judge its claims: one of the paper's, or a TOML
        file.
    scale
        The scale the study was run at [default: lite].
    metrics
        The columns of the results, such as `acc average_incremental task_il_acc` [default: acc bwt
        forgetting]; `docs/metrics.md` has all.
    json
        Print results and verdicts as one JSON object.
    """
    from bntricks.paper import load_study
    from bntricks.report.build import build
    from bntricks.report.records import load_records

    chosen = None if study is None else load_study(study)
    records: Sequence[Record] = load_records(runs)
    if chosen is not None:
        from bntricks.sweeps.plan import choose

        scale, every = chosen.checked_scale(scale), len(records)
        records = choose(chosen, scale, records)
        if len(records) < every:
            console.complain(f"{len(records)} of {every} runs are of {chosen.name}, the rest not")
    words = ["bnt", "report", *map(str, runs), "--out", str(out)]
    words += ["--study", study, "--scale", scale] if study and scale else []
    words += ["--metrics", *metrics] if metrics else []
    command = command_line(words)
    _write_and_show(build(records, chosen, scale, command=command, metrics=metrics), out, json)


def _write_and_show(report: Report, out: Path, json: bool, *, done: bool = False) -> None:
    """Write the report unless that is done, and print results as in the paper, with verdicts if
    there are any."""
    from bntricks.report.files import write
    from bntricks.report.tables.table import fitted, terminal_width, to_json, to_rich

    page = out / PAGE if done else write(report, out, warn=console.complain)
    if json:
        print_json({"page": str(page), "tables": [to_json(table) for table in report.tables]})
        return
    printed = [report.form, *([report.verdict_table] if report.verdict_table else [])]
    for table in printed:
        for part in fitted(table, console.out.width, terminal_width):
            console.out.print(to_rich(part))
    for line in report.overview.missing:
        console.say(f"missing: {line}")
    console.say(f"tables and figures in {page.parent}/, page written to {page}")
