"""Two runs, or two sets of runs, side by side: how their configurations and results differ, seed by
seed. Differences are A minus B."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any

from bntricks.errors import UserError
from bntricks.files import commit, write_errors
from bntricks.report.figures.figure import Figure
from bntricks.report.figures.lines import curves, per_task
from bntricks.report.figures.looks import looks
from bntricks.report.groups import RunGroup, group, stream_title
from bntricks.report.records import by_seed, load_records
from bntricks.report.statistics import difference
from bntricks.report.tables.results import measured, p_value
from bntricks.report.tables.table import SKIPPED, Cell, Table, interval, knob_text, number
from bntricks.runs.metrics import chosen, metric_title
from bntricks.runs.record import Record

Places = Path | str | Iterable[Path | str]
Pair = tuple[RunGroup, RunGroup]
"""Each is the runs of one method and protocol."""
SIDES = ("A", "B")
UNPAIRED = "Runs of no common seed are not paired: there is no difference to estimate."


@dataclass(frozen=True, slots=True)
class PairReport:
    """The differences of a pair, as tables, and figures of both sides."""

    title: str
    configuration: Table
    differences: Table
    curve: Table
    figures: tuple[Figure, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.configuration, self.differences, self.curve


def compare(a: Places, b: Places, metrics: Iterable[str] = ()) -> list[PairReport]:
    """Compare the runs in two places, for each pair of groups: the only ones there are, or those of
    the same method and stream."""
    names = chosen(metrics)
    return [
        PairReport(
            title=_title(pair),
            configuration=_configuration(pair),
            differences=_differences(pair, names),
            curve=_curve(pair),
            figures=tuple(_figures(pair, number)),
        )
        for number, pair in enumerate(_pairs(load_records(a), load_records(b)), start=1)
    ]


def write_page(reports: Sequence[PairReport], path: Path, command: str | None = None) -> None:
    """Write all comparisons as one HTML file."""
    from bntricks.report.page.html import Section, figure_html, page_html, table_html

    sections = []
    for index, report in enumerate(reports, start=1):
        tables = (
            f"<h3>{escape(table.title)}</h3>{table_html(table, f'table-{index}-{number}')}"
            for number, table in enumerate(report.tables)
        )
        content = "".join((*tables, *map(figure_html, report.figures)))
        sections.append(Section(f"pair-{index}", report.title, content))
    summary = "What differs between A and B: differences are A minus B, paired by seed."
    with write_errors(path):
        commit({path: page_html("A and B", summary, sections, command).encode()})


def labelled(pair: Pair) -> list[RunGroup]:
    """Label the groups by their sides; they look different even if they are of one method."""
    own_looks = looks([(each.method, side) for side, each in zip(SIDES, pair, strict=True)])
    return [
        replace(each, label=f"{side}: {each.title}", variant=side, look=look)
        for side, each, look in zip(SIDES, pair, own_looks, strict=True)
    ]


def _pairs(a: Sequence[Record], b: Sequence[Record]) -> list[Pair]:
    ours, theirs = group(a), group(b)
    if len(ours) == len(theirs) == 1:
        return [(ours[0], theirs[0])]
    by_name = [{(g.method, g.stream): g for g in groups} for groups in (ours, theirs)]
    for side, groups, named in zip(SIDES, (ours, theirs), by_name, strict=True):
        if len(named) < len(groups):
            raise UserError(
                f"{side} holds several protocols of one method: give a folder for each of them"
            )
    common = [name for name in by_name[0] if name in by_name[1]]
    if not common:
        raise UserError(
            "A and B have no method and stream in common, and one of them has several: name runs "
            "of one method on each side"
        )
    return [(by_name[0][name], by_name[1][name]) for name in common]


def _title(pair: Pair) -> str:
    methods = dict.fromkeys(each.title for each in pair)
    streams = dict.fromkeys(stream_title(each.stream) for each in pair)
    return f"{' and '.join(methods)} on {' and '.join(streams)}"


def _configuration(pair: Pair) -> Table:
    """Tabulate the options, data and versions in which they differ."""
    sides: list[dict[str, Any]] = [{**each.knobs, **each.records[0].versions} for each in pair]
    names = dict.fromkeys(key for side in sides for key in side)
    rows = tuple(
        (Cell(key.replace("_", " ")), *(Cell(knob_text(side.get(key))) for side in sides))
        for key in names
        if sides[0].get(key) != sides[1].get(key)
    )
    notes = () if rows else ("Nothing: the same configuration, data and versions.",)
    return Table("What differs in configuration", ("", *SIDES), rows, notes)


def _differences(pair: Pair, metrics: Sequence[str]) -> Table:
    rows, seeds = [], 0
    for metric in metrics:
        a, b = (by_seed(each.records, metric) for each in pair)
        found = difference(a, b)
        seeds = max(seeds, found.n)
        rows.append(
            (
                Cell(metric_title(metric)),
                *(measured(side.values()) for side in (a, b)),
                number(found.mean) if found.n else SKIPPED,
                interval(found.low, found.high),
                p_value(found.p),
                number(found.n, 0),
            )
        )
    columns = ("Metric", *SIDES, "A − B", "95% interval", "p", "Seeds")
    notes = ["Mean ± standard deviation over seeds; differences are taken seed by seed."]
    if not seeds:
        notes.append(UNPAIRED)
    elif seeds < 2:
        notes.append("One seed has no interval, so this shows nothing yet.")
    return Table("What differs in results", columns, tuple(rows), tuple(notes))


def _curve(pair: Pair) -> Table:
    """Tabulate ACC after each task."""
    sides = (
        zip(*(r.metrics["acc_after_each_task"] for r in each.records), strict=True) for each in pair
    )
    rows = tuple(
        (number(task, 0), *map(measured, accs))
        for task, accs in enumerate(zip_longest(*sides, fillvalue=()), start=1)
    )
    return Table("ACC after each task", ("After task", *SIDES), rows)


def _figures(pair: Pair, number: int) -> Iterator[Figure]:
    sides = labelled(pair)
    for figure in (curves(sides), per_task(sides)):
        yield replace(figure, name=f"pair-{number}-{figure.name.split('-')[0]}")
