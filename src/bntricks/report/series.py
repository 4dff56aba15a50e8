"""The numbers behind the figures, as rows: what a chart draws and what its CSV holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bntricks.paper import STREAMS
from bntricks.report.groups import Group
from bntricks.report.results import compared, metric_title
from bntricks.report.statistics import mean, sd
from bntricks.report.verdicts import Judgement

Row = dict[str, Any]


def curve_rows(groups: Iterable[Group]) -> Iterator[Row]:
    """ACC after each task that was evaluated."""
    for group in groups:
        curves = [record.metrics["acc_after_each_task"] for record in group.records]
        for task, values in enumerate(zip(*curves, strict=True), start=1):
            if known := [value for value in values if value is not None]:
                yield {**spread(group.label, known), "task": task}


def task_rows(groups: Iterable[Group]) -> Iterator[Row]:
    """Final accuracy on each task."""
    for row in matrix_rows(groups, only_last=True):
        yield {key: value for key, value in row.items() if key != "after"}


def matrix_rows(groups: Iterable[Group], *, only_last: bool = False) -> Iterator[Row]:
    """Every entry of R that was measured."""
    for group in groups:
        for after in range(group.tasks if only_last else 1, group.tasks + 1):
            for task in range(1, group.tasks + 1):
                values = [record.accuracy[after - 1][task - 1] for record in group.records]
                if known := [value for value in values if value is not None]:
                    yield {**spread(group.label, known), "after": after, "task": task}


def cost_rows(groups: Iterable[Group]) -> Iterator[Row]:
    """ACC, passes of a step and speed."""
    for group in groups:
        yield {
            **spread(group.label, group.values("acc")),
            "forwards_per_step": group.mean("forwards_per_step"),
            "images_per_second": group.mean("images_per_second"),
        }


def verdict_rows(judgements: Sequence[Judgement]) -> Iterator[Row]:
    """Our difference in each claim that was run, and the paper's where its tables have it."""
    for number, judged in enumerate(judgements, start=1):
        if judged.ours is None:
            continue
        metric = metric_title(judged.metric)
        shared = {
            "claim": f"{number}. {compared(judged)}, {metric}{_stream(judged.claim)}",
            "text": judged.claim,
            "where": judged.where,
        }
        yield {
            **shared,
            "shown": judged.verdict,
            "difference": judged.ours,
            "low": judged.low,
            "high": judged.high,
            "seeds": judged.seeds,
        }
        if judged.paper is not None:
            nothing = {"low": None, "high": None, "seeds": None}
            yield {**shared, "shown": "the paper", "difference": judged.paper, **nothing}


def spread(label: str, values: Sequence[float]) -> Row:
    """Mean, standard deviation, and the band of one deviation to either side."""
    centre, width = mean(values), sd(values)
    if centre is None:
        raise ValueError(f"{label}: no values to average")
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
