"""The numbers behind the figures, as rows: what a chart draws and what its CSV holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bntricks.paper import STREAMS
from bntricks.report.groups import Group
from bntricks.report.results import compared, metric_title
from bntricks.report.statistics import mean, sd
from bntricks.report.verdicts import Row as Judged

Row = dict[str, Any]


def curve_rows(groups: Iterable[Group]) -> Iterator[Row]:
    """ACC after each task that was evaluated."""
    for one in groups:
        for task, values in enumerate(_columns(one, "acc_after_each_task"), start=1):
            if values:
                yield {**spread(one.label, values), "task": task}


def task_rows(groups: Iterable[Group]) -> Iterator[Row]:
    """Final accuracy on each task."""
    for one in groups:
        for task in range(1, len(one.records[0]["accuracy"]) + 1):
            values = [record["accuracy"][-1][task - 1] for record in one.records]
            yield {**spread(one.label, values), "task": task}


def matrix_rows(groups: Iterable[Group]) -> Iterator[Row]:
    """Every entry of R that was measured."""
    for one in groups:
        tasks = range(1, len(one.records[0]["accuracy"]) + 1)
        for after in tasks:
            for task in tasks:
                values = [r["accuracy"][after - 1][task - 1] for r in one.records]
                if known := [value for value in values if value is not None]:
                    yield {**spread(one.label, known), "after": after, "task": task}


def cost_rows(groups: Iterable[Group]) -> Iterator[Row]:
    """ACC, passes of a step and speed."""
    for one in groups:
        yield {
            **spread(one.label, one.values("acc")),
            "forwards_per_step": one.mean("forwards_per_step"),
            "images_per_second": one.mean("images_per_second"),
        }


def verdict_rows(rows: Sequence[Judged]) -> Iterator[Row]:
    """Our difference in each claim that was run, and the paper's where its tables have it."""
    for number, row in enumerate(rows, start=1):
        if row.ours is None:
            continue
        both = {
            "claim": f"{number}. {compared(row)}, {metric_title(row.metric)}{_stream(row.claim)}",
            "text": row.claim,
            "where": row.where,
        }
        yield {
            **both,
            "shown": row.verdict,
            "difference": row.ours,
            "low": row.low,
            "high": row.high,
            "seeds": row.seeds,
        }
        if row.paper is not None:
            nothing = {"low": None, "high": None, "seeds": None}
            yield {**both, "shown": "the paper", "difference": row.paper, **nothing}


def spread(label: str, values: Sequence[float]) -> Row:
    """Mean, deviation, and the band of one deviation to both sides."""
    centre, width = mean(values), sd(values)
    if centre is None:
        raise ValueError(f"{label}: a mean of nothing")
    return {
        "label": label,
        "acc": centre,
        "sd": width,
        "low": centre - (width or 0.0),
        "high": centre + (width or 0.0),
        "seeds": len(values),
    }


def _stream(claim: str) -> str:
    """The stream that a claim is about, as its text names it."""
    named = [title for title in STREAMS.values() if title in claim]
    return f", {max(named, key=len)}" if named else ""


def _columns(one: Group, name: str) -> list[list[float]]:
    """Over seeds, what is known at each place of a list."""
    lists = [record[name] for record in one.records]
    return [[v for v in at if v is not None] for at in zip(*lists, strict=True)]
