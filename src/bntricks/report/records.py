"""The records of a report, each run once and without contradictions, and two tables of them for
pandas, R or a spreadsheet: a row for each run, and a row for each measurement on the way."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bntricks.errors import UserError, extra
from bntricks.files import read_errors
from bntricks.runs.metrics import choosable
from bntricks.runs.record import Record
from bntricks.runs.record.file import NAME, first_training, read

if TYPE_CHECKING:
    import pandas

COLUMNS = (
    *("run", "method", "stream", "seed", "memory"),
    *("after_task", "epoch", "task", "class", "metric", "value"),
)
"""Of measurements. `after_task` 0 is before any training. `epoch` is empty but for accuracy within
a task; `task` is empty for `acc_so_far`, the mean over all tasks up to there, and `class` for all
but the accuracy of a class."""

Row = dict[str, Any]


class Records(list[Record]):
    """Runs that were loaded, and their numbers as tables."""

    def rows(self) -> list[Row]:
        """Return a row for each run: its name, every option, the method's own hyper-parameters and
        every final metric. What a run does not have is None."""
        hyper = sorted({name for record in self for name in record.config.hyper})
        return [_run(record, hyper) for record in self]

    def measurements(self) -> list[Row]:
        """Return a row for each measurement of each run on the way: of a task after a task or an
        epoch, of a class. The columns are always the same."""
        rows = []
        for record in self:
            run = {key: value for key, value in _run(record, ()).items() if key in COLUMNS}
            rows += [dict.fromkeys(COLUMNS) | run | row for row in _measurements(record)]
        return rows

    def frame(self) -> pandas.DataFrame:
        """Return the rows, one for each run, as a pandas frame."""
        with extra():
            import pandas
        return pandas.DataFrame(self.rows())


def load_records(paths: Path | str | Iterable[Path | str]) -> Records:
    """Load the runs in one or several places, each once: record files, run folders, or folders of
    run folders. The result is a list of `Record`; `load_records("runs").frame()` is a pandas frame
    with a row for each run."""
    return Records(with_readings(read_all(paths)))


def read_all(paths: Path | str | Iterable[Path | str]) -> list[Record]:
    """Load the newest record of each run in these places."""
    places = [paths] if isinstance(paths, str | Path) else paths
    files = [file for path in places for file in _record_files(Path(path))]
    if not files:
        raise UserError("no runs given: name a folder of runs, such as `bnt report runs`")
    return [read(file) for file in dict.fromkeys(files)]


def with_readings(runs: Sequence[Record]) -> list[Record]:
    """Return every run once, and every reading that is not a run of its own. Of a run that was
    trained again with different bits, the first training counts."""
    readings = unique(row for run in runs for row in run.rows()[1:])
    return list({**readings, **unique(map(first_training, runs))}.values())


def unique(records: Iterable[Record]) -> dict[str, Record]:
    """Return every run once, by its identity. Different results of the same run are an error."""
    by_identity: dict[str, Record] = {}
    for record in records:
        identity = record.config.identity(record.data.fingerprint)
        first = by_identity.setdefault(identity, record)
        if first.accuracy != record.accuracy:
            places = " or ".join(dict.fromkeys((_place(first), _place(record))))
            raise UserError(
                f"{record.method} on {record.stream}, seed {record.seed}, is there twice with "
                f"different results: remove {places}"
            )
    return by_identity


def by_seed(records: Iterable[Record], metric: str) -> dict[int, float]:
    """Return this number of every run that has it, by seed."""
    numbers = {record.seed: record.value(metric) for record in records}
    return {seed: number for seed, number in numbers.items() if number is not None}


def _run(record: Record, hyper: Iterable[str]) -> Row:
    config = record.config
    options = config.model_dump(mode="json", exclude={"hyper"})
    named = {name: options.pop(name) for name in ("method", "stream", "seed")}
    for name in ("tasks", "imports"):
        options[name] = json.dumps(options[name]) if options[name] else None
    return {
        "run": config.identity(record.data.fingerprint),
        **named,
        **options,
        **{name: config.hyper.get(name) for name in hyper},
        **{metric: record.value(metric) for metric in choosable()},
    }


def _measurements(record: Record) -> Iterator[Row]:
    tasks = len(record.accuracy)
    for metric in ("accuracy", "task_il_accuracy"):
        for after, accuracies in enumerate(getattr(record, metric), start=1):
            yield from _by_task(metric, accuracies, after_task=after)
    if before := record.before_learning:
        yield from _by_task("untrained_task_il_accuracy", before.untrained, after_task=0)
        for row in _by_task("next_task_il_accuracy", before.just_before):
            yield row | {"after_task": row["task"] - 1}
    for epoch in record.epoch_accuracy or ():
        where = {"after_task": epoch.task, "epoch": epoch.epoch}
        yield from _by_task("accuracy", epoch.accuracy, **where)
    for after, acc in enumerate(record.metrics["acc_after_each_task"], start=1):
        if acc is not None:
            yield {"after_task": after, "metric": "acc_so_far", "value": acc}
    names = record.data.class_names
    for name, accuracy in zip(names, record.class_accuracy or (), strict=False):
        if accuracy is not None:
            row = {"class": name, "metric": "class_accuracy", "value": accuracy}
            yield {"after_task": tasks, **row}


def _by_task(metric: str, accuracies: Sequence[float | None], **where: int) -> Iterator[Row]:
    for task, accuracy in enumerate(accuracies, start=1):
        if accuracy is not None:
            yield {**where, "task": task, "metric": metric, "value": accuracy}


def _record_files(path: Path) -> list[Path]:
    with read_errors(path):
        if path.is_dir():
            files = [path / NAME] if (path / NAME).is_file() else sorted(path.rglob(NAME))
        else:
            files = [path] if path.exists() else []
    if files:
        return files
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    raise UserError(
        f"{path} holds no finished run, which would have a {NAME}: name another folder, or train "
        "a run there first"
    )


def _place(record: Record) -> str:
    return "one of them" if record.path is None else str(record.path)
