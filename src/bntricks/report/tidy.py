"""Every number of every run in one table, a row each: for pandas, R or a spreadsheet, without any
parsing. The columns are always the same, so the tables of two folders can be put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bntricks.report.tables import csv_text
from bntricks.runs.metrics import choosable
from bntricks.runs.record import Record

NAME = "measurements.csv"
COLUMNS = (
    *("run", "method", "stream", "seed", "memory"),
    *("after_task", "epoch", "task", "class", "metric", "value"),
)
"""`after_task` 0 is before any training. `epoch` is empty but for accuracy within a task; `task` is
empty for metrics over all tasks, and `class` for all but the accuracy of a class."""

Row = dict[str, Any]


def tidy(records: Iterable[Record]) -> list[Row]:
    """The rows of these runs; what a run did not measure has none."""
    return [
        dict.fromkeys(COLUMNS) | _run(record) | row for record in records for row in _rows(record)
    ]


def to_csv(records: Iterable[Record]) -> str:
    return csv_text(COLUMNS, [row.values() for row in tidy(records)])


def _run(record: Record) -> Row:
    config = record.config
    name = config.identity(record.data.fingerprint)
    return {"run": name, **{k: getattr(config, k) for k in ("method", "stream", "seed", "memory")}}


def _rows(record: Record) -> Iterator[Row]:
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
        if acc is not None and after < tasks:
            yield {"after_task": after, "metric": "acc", "value": acc}
    for metric in choosable():
        if (number := record.value(metric)) is not None:
            yield {"after_task": tasks, "metric": metric, "value": number}
    names = record.data.class_names
    for name, accuracy in zip(names, record.class_accuracy or (), strict=False):
        if accuracy is not None:
            row = {"class": name, "metric": "class_accuracy", "value": accuracy}
            yield {"after_task": tasks, **row}


def _by_task(metric: str, accuracies: Sequence[float | None], **where: int) -> Iterator[Row]:
    for task, accuracy in enumerate(accuracies, start=1):
        if accuracy is not None:
            yield {**where, "task": task, "metric": metric, "value": accuracy}
