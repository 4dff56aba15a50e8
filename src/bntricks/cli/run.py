"""`bnt run`: one run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from bntricks.cli import console
from bntricks.cli.app import (
    Count,
    Imports,
    In,
    Json,
    Names,
    Seconds,
    Seeds,
    Switch,
    app,
    import_all,
    refuse_misspelt,
)
from bntricks.cli.printing import print_json, raise_failures
from bntricks.cli.training import advise_bf16, board
from bntricks.errors import UserError
from bntricks.runs.config import Config
from bntricks.runs.request import Request
from bntricks.system.ranks import launched, run_ranks

if TYPE_CHECKING:
    from bntricks.runs.record import Record
    from bntricks.training.events import Event

PRINTED = ("acc", "bwt")


@app.command
def run(
    *,
    config: Annotated[Config, Parameter(name="*")] = Config(),  # noqa: B008 (frozen)
    request: Annotated[Request, Parameter(name="*")] = Request(),  # noqa: B008 (frozen)
    seeds: Annotated[Seeds, In.learned] = 1,
    save: Annotated[Switch, In.output] = False,
    save_every_task: Annotated[Switch, In.rare_output] = False,
    metrics: Annotated[Names, In.output] = (),
    ranks: Annotated[Count | None, In.rare_computed] = None,
    imports: Annotated[Imports, In.learned] = (),
    json: Annotated[Json, In.output] = False,
    **hyper: Annotated[float, In.learned],
) -> None:
    """Train one method on one stream, and write its record.

    Defaults are the paper's: ResNet-18 of width 64, 50 epochs a task, SGD at 0.03, batches of
    32. A run that is already there is not trained again, and one that was interrupted, for
    whatever reason, continues from its newest checkpoint to the same bits.

    Examples:

    - `bnt run --method er-bnt --stream seq-digits --epochs 20 --width 8`
    - `bnt run --method er --stream seq-cifar10 --data ~/data --width 16 --epochs 5`
    - `bnt run --stream folder --data photos --classes-per-task 5 --image-size 32`
    - `bnt run --stream seq-cifar100 --class-order 1993 --first 50 --increment 10 --net resnet32`

    Parameters
    ----------
    seeds
        Train this many runs, with the seed and those after it, side by side; `--json` prints an
        object a line.
    save
        Write the trained network into the run's folder, as `model.safetensors`, for `bnt predict`,
        `bnt diagnose`, `bnt recalibrate`, `bnt export` and `bnt learn`.
    save_every_task
        The same, and as it was after every task before the last.
    metrics
        What to print of the result, such as `acc task_il_acc` [default: acc bwt]; the record has
        all. `docs/metrics.md` says what they mean.
    ranks
        Split the run over this many processes of this machine: sgd, er, der and their variants. On
        CUDA each takes a GPU of its own.
    json
        Print the record as one JSON object on one line.
    hyper
        The method's own hyper-parameters, by the names `bnt methods` shows.
    """
    from bntricks.methods import entries, find
    from bntricks.runs.folder import run as train
    from bntricks.runs.metrics import chosen

    if _split(ranks):
        return
    import_all(imports)
    if config.method in entries():
        refuse_misspelt(hyper.keys() - find(config.method).hyper().keys(), "run")
    config = config.model_copy(update={"hyper": hyper, "ranks": launched()[1]})
    when = "every task" if save_every_task else "end" if save else None
    request = request.model_copy(update={"save": when})
    columns = chosen(metrics) if metrics else PRINTED
    if seeds == 1:
        _train_and_print(partial(train, config, request), json, columns, advised=request)
    else:
        _train_seeds([config.seed + k for k in range(seeds)], config, request, json, columns)


def _train_seeds(
    seeds: Sequence[int], config: Config, request: Request, json: bool, metrics: Sequence[str]
) -> None:
    """Train a run of each seed, and print the records, or their numbers and their mean."""
    from bntricks.report.statistics import mean, sd
    from bntricks.runs.metrics import column_title
    from bntricks.runs.record import Record
    from bntricks.sweeps.local import sweep

    if config.ranks > 1:
        raise UserError("there is one run that is split: leave this out", option="seeds")
    configs = [Config.of(**(config.model_dump() | {"seed": seed})) for seed in seeds]
    with board(configs) as sink:
        results = sweep(configs, request, sink=sink)
    records = [result for result in results if isinstance(result, Record)]
    if json:
        for record in records:
            print_json(_located(record))
    elif records:
        rows: list[tuple[object, ...]] = [
            (record.seed, *(_number(record.value(metric)) for metric in metrics), record.path)
            for record in records
        ]
        columns = [
            [value for record in records if (value := record.value(metric)) is not None]
            for metric in metrics
        ]
        rows += [
            (title, *(_number(of(column)) for column in columns), "")
            for title, of in (("mean", mean), ("sd", sd))
        ]
        console.show(["seed", *map(column_title, metrics), "written to"], rows)
    raise_failures(results)


def _split(ranks: int | None) -> bool:
    """Run this command as several processes, if it asks for that and is not one of them."""
    started = launched()[1]
    if ranks in (None, started):
        return False
    if started > 1:
        text = f"torchrun has started {started} processes: leave it out"
        raise UserError(text, option="ranks", value=ranks)
    if code := run_ranks(ranks, [sys.executable, "-m", "bntricks", *sys.argv[1:]]):
        sys.exit(code)
    return True


@app.command
def resume(
    run: Path,
    /,
    *,
    data: Path | None = None,
    start: Annotated[Path | None, Parameter(name="--from")] = None,
    net: str | None = None,
    checkpoint_seconds: Seconds = 120.0,
    ranks: Count | None = None,
    imports: Imports = (),
    json: Json = False,
) -> None:
    """Continue an interrupted run, to the same bits.

    It continues from its newest checkpoint. Repeating the same `bnt run` does this too; here, the
    folder is enough.

    Examples:

    - `bnt resume runs/3565f808cde3afbc`

    Parameters
    ----------
    run
        The run's folder, such as `runs/3565f808cde3afbc`.
    data
        The folder with the data, if it has moved.
    start
        The model that the run started from, if it has moved.
    net
        The code that builds the run's network, as `package.module:function`, if it is your own. It
        is imported and run, so the folder alone does not decide this.
    checkpoint_seconds
        Time between checkpoints, in seconds.
    ranks
        The number of processes that the run is split over, if it is.
    json
        Print the record as one JSON object on one line.
    """
    from bntricks.runs.folder import resume as continue_run

    if _split(ranks):
        return
    import_all(imports)
    how: dict[str, Any] = {
        "checkpoint_seconds": checkpoint_seconds,
        **({"start": start} if start else {}),
    }
    train = partial(continue_run, run, data=data, net=net, **how)
    _train_and_print(train, json)


def _train_and_print(
    train: Callable[..., Record],
    json: bool,
    metrics: Sequence[str] = PRINTED,
    *,
    advised: Request | None = None,
) -> None:
    """Train, show the progress of all ranks on the first, and print the record there."""
    from bntricks.training.events import silent

    if launched()[0] != 0:
        train(sink=silent)
        return
    with console.progress() as show:

        def sink(event: Event) -> None:
            show(event)
            begun_before = event["event"] != "begin" or any(Path(event["path"]).glob("checkpoint*"))
            if advised is not None and not begun_before:
                advise_bf16(Config.of(**event["config"]), advised)

        record = train(sink=sink)
    if json:
        print_json(_located(record))
        return
    data = record.data
    done = "already there" if record.already_there else "done"
    console.say(f"{record.method} on {record.stream}, seed {record.seed}: {done}")
    console.matrix(record.accuracy)
    console.say(f"\n{_summary(record, metrics)}")
    for name, row in zip(record.readings or (), record.rows()[1:], strict=True):
        console.say(f"read by {name}: {_summary(row, metrics)}")
    if data.cut_down and data.official_images is not None:
        have, official = data.images, data.official_images
        console.say(
            f"cut-down data: {have['train']} of {official['train']} training and "
            f"{have['test']} of {official['test']} test images; not comparable with the paper"
        )
    console.say(f"peak memory {record.peak_memory_mb:.0f} MB; written to {record.path}")


def _summary(record: Record, metrics: Sequence[str]) -> str:
    from bntricks.runs.metrics import column_title

    numbers = {column_title(metric): record.value(metric) for metric in metrics}
    return "   ".join(f"{name} {_number(x)}" for name, x in numbers.items())


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _located(record: Record) -> dict[str, Any]:
    location = {"path": str(record.path), "already_there": record.already_there}
    return {**record.to_json(), **location}
