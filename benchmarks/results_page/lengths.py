"""How effects move with training length: the runs of two scales, trained for shorter and longer."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from bntricks.paper import ScaleName, load_reported, load_study
from bntricks.report.statistics import mean, sd
from bntricks.report.tables.table import Cell, Table, number, to_markdown
from bntricks.runs.record import Record
from results_page.evidence import has_protocol
from results_page.scales import STREAM, paper_steps

COMPARED = ("er", "er-cur+buf", "er-bnt")
METRICS = ("acc", "bwt")
TEXT = """## Training length

ER, ER-Cur+Buf and ER-BNT at the protocols of the two scales, with fewer and more epochs a task.
The paper trains {steps:,} steps a task, and has ER-Cur+Buf {buf:.1f} and ER-BNT {bnt:.1f} points of
ACC above ER. Rows of one scale differ in nothing but their length; from one scale to the other,
the number of images and the memory change as well.
"""


@dataclass(frozen=True, slots=True)
class Length:
    """The runs of one length, method by method, over the seeds that all of them have."""

    scale: ScaleName
    epochs: int
    seeds: tuple[int, ...]
    runs: dict[str, list[Record]]

    @property
    def steps(self) -> int:
        record = next(iter(self.runs.values()))[0]
        return record.steps // len(record.accuracy)

    def values(self, method: str, metric: str) -> list[float]:
        return [record.metrics[metric] for record in self.runs.get(method, ())]

    def gains(self, method: str, metric: str) -> list[float]:
        """Over ER, seed by seed; empty if either is missing."""
        own, er = self.values(method, metric), self.values("er", metric)
        return [a - b for a, b in zip(own, er, strict=True)] if own and er else []


def lengths(records: Sequence[Record]) -> list[str]:
    """The section with its table."""
    found = [length for scale in ("lite", "medium") for length in _of_scale(scale, records)]
    if not found:
        return []
    found.sort(key=lambda length: length.steps)
    text = TEXT.format(
        steps=paper_steps(records),
        buf=_paper_gain("er-cur+buf"),
        bnt=_paper_gain("er-bnt"),
    )
    return [text.rstrip() + "\n", to_markdown(_table(found)), ""]


def _paper_gain(method: str) -> float:
    accs = {
        entry.method: entry.acc.mean
        for entry in load_reported().entries()
        if entry.stream == STREAM
    }
    return accs[method] - accs["er"]


def _of_scale(scale: ScaleName, records: Sequence[Record]) -> list[Length]:
    """The runs of a scale, from the shortest to the longest."""
    values = load_study("pilot").values(scale, STREAM)
    own = [
        record
        for record in records
        if record.method in COMPARED
        and record.stream == STREAM
        and record.data.cut_down == (scale == "lite")
        and has_protocol(record, {**values, "epochs": record.config.epochs})
    ]
    own.sort(key=lambda record: record.config.epochs)
    found = [
        _length(scale, epochs, list(runs))
        for epochs, runs in groupby(own, key=lambda record: record.config.epochs)
    ]
    # A method without ER beside it says nothing about length.
    return [each for each in found if each.seeds and each.gains("er-bnt", "acc")]


def _length(scale: ScaleName, epochs: int, records: list[Record]) -> Length:
    by_method: dict[str, dict[int, Record]] = {}
    for record in records:
        by_method.setdefault(record.method, {})[record.seed] = record
    seeds = tuple(sorted(set.intersection(*(set(runs) for runs in by_method.values()))))
    runs = {method: [own[seed] for seed in seeds] for method, own in by_method.items()}
    return Length(scale, epochs, seeds, runs)


def _table(found: Sequence[Length]) -> Table:
    columns = [f"{metric.upper()} of {method}" for metric in METRICS for method in COMPARED]
    columns += [f"{metric.upper()}: {m} − er" for m in COMPARED[1:] for metric in METRICS]
    rows = [
        (
            number(length.steps, 0),
            number(length.epochs, 0),
            Cell(length.scale),
            *(_cell(length.values(m, metric)) for metric in METRICS for m in COMPARED),
            *(_cell(length.gains(m, metric)) for m in COMPARED[1:] for metric in METRICS),
            number(len(length.seeds), 0),
        )
        for length in found
    ]
    return Table(
        "Training length",
        ("Steps a task", "Epochs", "Scale", *columns, "Seeds"),
        tuple(rows),
        ("Mean ± standard deviation over the seeds that all methods of a row have.",),
    )


def _cell(values: list[float]) -> Cell:
    return number(mean(values), 1, sd=sd(values))
