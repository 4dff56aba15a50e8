"""The command `bnt`. Thin: it parses, calls, prints. No torch is imported until work begins."""

from __future__ import annotations

import difflib
import json as jsonlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

from cyclopts import App, CycloptsError, Parameter
from cyclopts import ValidationError as Rejected
from cyclopts.validators import Number
from pydantic import ValidationError

from bntricks import terminal
from bntricks.config import Config, explain
from bntricks.errors import HeldError, RunError, UserError
from bntricks.paper import ScaleName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bntricks.record import Record
    from bntricks.sweep import Failure

app = App(
    name="bnt",
    help="BatchNorm in class-incremental learning: train, compare and take apart BN Tricks.\n\n"
    "Start with `bnt demo`, then `bnt methods` and `bnt streams`, then `bnt run`.",
    help_format="markdown",
)

Json = Annotated[bool, Parameter(negative=())]
Switch = Annotated[bool, Parameter(negative=())]


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
    from bntricks.demo import plan, summary
    from bntricks.report import write_report
    from bntricks.sweep import Failure, sweep

    configs = plan(seeds=seeds, quick=quick)
    names = [f"{config.method} seed {config.seed}" for config in configs]
    with terminal.sweep_progress(names) as sink:
        results = sweep(configs, out=out, workers=workers, sink=sink)
    records = [result for result in results if not isinstance(result, Failure)]
    rows = summary(records)
    note = "too short to show the effect; run without --quick" if quick else None
    if json:
        _print_json({"rows": rows, "note": note, "path": str(out)})
    elif records:
        cells = [
            [
                row["method"],
                _spread(row["acc"]),
                _spread(row["bwt"]),
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
    _raise_failures(results)


@app.command
def run(
    *,
    config: Annotated[Config, Parameter(name="*")] = Config(),  # noqa: B008 (frozen)
    data: Path | None = None,
    out: Path = Path("runs"),
    track: Literal["deferred", "every-step"] = "deferred",
    force: Switch = False,
    json: Json = False,
    **hyper: float,
) -> None:
    """Train one method on one stream, and write its record.

    Defaults are the paper's: ResNet-18 of width 64, 50 epochs a task, SGD at 0.03, batches of
    32. A run that is already there is not trained again.

    Examples:
      bnt run --method er-bnt --stream seq-digits --epochs 20 --width 8
      bnt run --method er --stream seq-cifar10 --data ~/data --width 16 --epochs 5
      bnt run --stream folder --data photos --classes-per-task 5 --image-size 32

    Parameters
    ----------
    data
        Folder with an existing copy of the data, full or cut down [default: $BNT_DATA, or a
        download].
    out
        Where runs are written, each in a folder of its own.
    track
        `deferred` leaves out tracking passes that no evaluation can feel, with the same result to
        the bit; `every-step` leaves out none.
    force
        Train even if the record is there.
    json
        Print the record as one JSON object on one line.
    hyper
        The method's own hyper-parameters, by the names `bnt methods` shows.
    """
    from bntricks.runs import run as train

    _refuse_misspelt(hyper)
    config = config.model_copy(update={"hyper": hyper})
    with terminal.progress() as sink:
        record = train(config, data=data, out=out, track=track, force=force, sink=sink)
    if json:
        _print_json(record)
    else:
        _print_record(record)


@app.command
def methods(*, json: Json = False, markdown: Switch = False) -> None:
    """List every method with its recipe: the columns of the paper's ablation table.

    Parameters
    ----------
    json
        Print an array of objects instead.
    markdown
        Print a Markdown table instead.
    """
    from bntricks.methods import entries

    found = [(entry, entry.factory().columns()) for entry in entries().values()]
    if json:
        _print_json(
            [
                {
                    "name": entry.name,
                    "title": entry.title,
                    "summary": entry.summary,
                    **columns,
                    "hyper": entry.hyper(),
                }
                for entry, columns in found
            ]
        )
        return
    rows = [
        [
            entry.name,
            columns["ema"],
            columns["parameters"],
            _forwards(columns),
            columns["memory"],
            " ".join(f"--{name} {value:g}" for name, value in entry.hyper().items()) or "none",
        ]
        for entry, columns in found
    ]
    header = ["name", "EMA", "model parameters", "forwards", "memory", "hyper-parameters"]
    if markdown:
        print(terminal.markdown(header, rows))
        return
    terminal.show(header, rows)
    terminal.out.print(
        "\nEMA: the batch that moves the running statistics; / means every forward does."
        "\nForwards are per step, once there is something in memory. --json tells more."
    )


@app.command
def streams(*, json: Json = False) -> None:
    """List every stream of tasks that can be learned.

    Parameters
    ----------
    json
        Print an array of objects instead.
    """
    from dataclasses import asdict

    from bntricks.streams import STREAMS

    rows = [asdict(info) for info in STREAMS.values()]
    if json:
        _print_json(rows)
        return
    terminal.show(list(rows[0]), [list(row.values()) for row in rows])


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
    _raise_failures(results)


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
        _print_json(found)
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


def main() -> NoReturn:
    """Run the command line; every planned failure is a line and an exit code, no traceback."""
    # Not KeyboardInterrupt: whoever might catch that on the way would decide the exit code.
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    try:
        app(exit_on_error=False, print_error=False)
        code = 0
    except Rejected as error:
        cause = error.__cause__
        code = _fail(explain(cause) if isinstance(cause, ValidationError) else str(error), 2)
    except (CycloptsError, UserError) as error:
        code = _fail(str(error), 2)
    except RunError as error:
        code = _fail(str(error), 1)
    except HeldError as error:
        code = _fail(str(error), 3)
    except BrokenPipeError:
        sys.stderr.close()
        code = 141
    sys.exit(code)


def _fail(message: str, code: int) -> int:
    terminal.complain(message)
    return code


def _stop(number: int, frame: object) -> NoReturn:
    terminal.complain("interrupted" if number == signal.SIGINT else "terminated")
    sys.exit(128 + number)


def _refuse_misspelt(hyper: dict[str, float]) -> None:
    """An unknown flag may be a hyper-parameter, or a slip of the pen."""
    flags = [f"--{name.replace('_', '-')}" for name in (*Config.model_fields, "data", "out")]
    for name in hyper:
        close = difflib.get_close_matches(f"--{name.replace('_', '-')}", flags, n=1, cutoff=0.8)
        if close:
            raise UserError(f"unknown flag --{name}: did you mean {close[0]}?")


def _raise_failures(results: Sequence[Record | Failure]) -> None:
    """Runs that failed did not stop the others, but they are said, and the exit code is 1."""
    failed = [result for result in results if not isinstance(result, dict)]
    if failed:
        lines = (f"{f.config.method}, seed {f.config.seed}: {f.reason}" for f in failed)
        raise RunError("\n".join(lines))


def _forwards(columns: dict[str, str | float]) -> str:
    """Passes of a step: with gradients; for tracking alone; by the teacher; for the projection."""
    extra = {
        "tracking": columns["tracking_forwards"],
        "teacher": columns["teacher_forwards"],
        "projection": columns["projection_forwards"],
    }
    parts = [f"{count} {what}" for what, count in extra.items() if str(count) != "0"]
    return " + ".join([str(columns["forwards"]), *parts])


def _spread(value: dict[str, float | None] | None) -> str:
    if value is None:
        return "–"
    return f"{value['mean']:.1f}" + ("" if value["sd"] is None else f" ± {value['sd']:.1f}")


def _print_json(value: Any) -> None:
    print(jsonlib.dumps(value, allow_nan=False))


def _print_record(record: Record) -> None:
    config, data = record["config"], record["data"]
    done = "already there" if record["already_there"] else "done"
    print(f"{config['method']} on {config['stream']}, seed {config['seed']}: {done}")
    terminal.matrix(record["accuracy"])
    bwt = "" if record["bwt"] is None else f"   BWT {record['bwt']:.2f}"
    print(f"\nACC {record['acc']:.2f}{bwt}")
    if data["cut_down"]:
        have, official = data["images"], data["official_images"]
        print(
            f"cut-down data: {have['train']} of {official['train']} training and "
            f"{have['test']} of {official['test']} test images; not comparable with the paper"
        )
    print(f"written to {record['path']}")
