"""Results in the form of the paper's tables: methods down, and ACC and BWT across, for each stream
(Table 3) or for each size of the memory (Table 4), with the batches of Table 2 where that is the
table. The long list, with a row for each group of runs, is in `results.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bntricks.paper import STREAMS, Study, load_reported
from bntricks.report.groups import Group, by_stream, stream_title
from bntricks.report.protocol import paper_numbers, protocol_notes
from bntricks.report.tables.table import SKIPPED, Cell, Table, number

METRICS = ("acc", "bwt")
BOUNDS = ("joint", "sgd")
"""Upper and lower bound: all data at once, and no protection against forgetting."""
BNT = "-bnt"
BOLD = (
    "Bold: the best of a method and its BN Tricks forms, or of all rows if there are none, among "
    "runs of one protocol."
)
POSITIVE = "A positive BWT is not bold: tasks were hardly known right after they were learned."


class Place(NamedTuple):
    """A column of the table: a stream, and a size of the memory where several are compared."""

    stream: str
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the table: a method, and what its runs have that others lack."""

    method: str
    variant: str
    groups: dict[Place, Group]

    @property
    def title(self) -> str:
        name = load_reported().titles.get(self.method, self.method)
        return f"{name} ({self.variant})" if self.variant else name


def paper_form(groups: Sequence[Group], study: Study | None = None) -> Table:
    """The table as the paper would print it."""
    places = _places(groups)
    lines = _lines(groups, places, study)
    blocks = [_block(line, lines) for line in lines]
    best = _best(lines, places, blocks)
    batches = study is not None and "Table 2" in study.artefacts
    with_paper = {
        place: any(place in line.groups and paper_numbers(line.groups[place]) for line in lines)
        for place in places
    }
    columns, heads = ["Method"], [""]
    if batches:
        columns, heads = [*columns, "EMA", "Model parameters"], [*heads, "", ""]
    for place in places:
        own = [name for metric in METRICS for name in _names(metric, with_paper[place])]
        columns += own
        heads += [_head(place, places)] * len(own)
    rows = tuple(
        (
            Cell(line.title),
            *(map(Cell, _batches(line.method)) if batches else ()),
            *(
                cell
                for place in places
                for metric in METRICS
                for cell in _cells(
                    line.groups.get(place),
                    metric,
                    with_paper[place],
                    (index, place, metric) in best,
                )
            ),
        )
        for index, line in enumerate(lines)
    )
    return Table(
        title=_title(study),
        columns=tuple(columns),
        rows=rows,
        notes=tuple(_notes(groups, lines)),
        heads=tuple(heads),
        rules=frozenset(i for i in range(1, len(lines)) if blocks[i] != blocks[i - 1]),
    )


def memories(groups: Sequence[Group]) -> list[int | None]:
    """Every size of the memory, if some method was run with several; else None alone."""
    sized = [group for group in groups if group.knobs["memory"] is not None]
    methods = {(group.method, group.variant) for group in sized}
    if len(sized) == len(methods):
        return [None]
    return [*sorted({int(group.knobs["memory"]) for group in sized})]


def _places(groups: Sequence[Group]) -> list[Place]:
    known = list(STREAMS)
    streams = sorted(by_stream(groups), key=lambda s: known.index(s) if s in known else len(known))
    own = {stream: memories([g for g in groups if g.stream == stream]) for stream in streams}
    return [Place(stream, memory) for stream in streams for memory in own[stream]]


def _lines(groups: Sequence[Group], places: Sequence[Place], study: Study | None) -> list[Line]:
    """Bounds first; then the study's order, or else the paper's, pairs together."""
    found: dict[tuple[str, str], dict[Place, Group]] = {}
    for group in groups:
        for place in places:
            # What needs no memory is the same beside every size of it.
            fits = place.memory in (None, group.knobs["memory"]) or group.knobs["memory"] is None
            if group.stream == place.stream and fits:
                found.setdefault((group.method, group.variant), {})[place] = group
    lines = [Line(method, variant, own) for (method, variant), own in found.items()]
    order = {} if study is None else {name: rank for rank, name in enumerate(study.methods)}
    return sorted(
        lines, key=lambda line: (line.method not in BOUNDS, order.get(line.method, len(order)))
    )


def _block(line: Line, lines: Sequence[Line]) -> str:
    """Rows between two rules: the bounds, the families of BN Tricks, and all others."""
    if line.method in BOUNDS:
        return "bounds"
    names = {each.method for each in lines}
    pairs = [name for name in names if f"{name}{BNT}" in names]
    family = [n for n in pairs if line.method == n or line.method.startswith(f"{n}-")]
    return f"family {max(family, key=len)}" if family else "others"


def _best(
    lines: Sequence[Line], places: Sequence[Place], blocks: Sequence[str]
) -> set[tuple[int, Place, str]]:
    """Where each family has its best number. Without a family, all but the bounds compete. A
    positive BWT does not: it says that tasks were hardly learned when they were new."""
    families = {block for block in blocks if block.startswith("family")} or {"others"}
    best = set()
    for block in families:
        for place in places:
            own = [
                (index, line.groups[place])
                for index, line in enumerate(lines)
                if blocks[index] == block and place in line.groups
            ]
            for metric in METRICS:
                best |= {(index, place, metric) for index in _winners(own, metric)}
    return best


def _winners(rivals: Sequence[tuple[int, Group]], metric: str) -> list[int]:
    """Those that no comparable rival surpasses, if they have one."""
    means = {index: group.mean(metric) for index, group in rivals}
    counted = {i: v for i, v in means.items() if v is not None and (metric != "bwt" or v <= 0)}
    winners = []
    for index, group in rivals:
        beside = [
            counted[other]
            for other, rival in rivals
            if other != index and other in counted and group.comparable(rival)
        ]
        if index in counted and beside and counted[index] >= max(beside):
            winners.append(index)
    return winners


def _names(metric: str, paper: bool) -> list[str]:
    return [metric.upper(), f"paper {metric.upper()}"] if paper else [metric.upper()]


def _cells(group: Group | None, metric: str, paper: bool, bold: bool) -> list[Cell]:
    """Our number, and the paper's where this place has any."""
    ours = number(group.mean(metric), sd=group.sd(metric)) if group else SKIPPED
    cells = [replace(ours, bold=bold) if ours.text else SKIPPED]
    if paper:
        entry = None if group is None else paper_numbers(group)
        result = getattr(entry, metric, None)
        cells.append(number(result.mean, sd=result.sd) if result else SKIPPED)
    return cells


def _batches(method: str) -> tuple[str, str]:
    return load_reported().batches.get(method) or ("–", "–")


def _head(place: Place, places: Sequence[Place]) -> str:
    if place.memory is None:
        return stream_title(place.stream)
    size = f"|M| = {place.memory}"
    return (
        size
        if len({each.stream for each in places}) == 1
        else (f"{stream_title(place.stream)}, {size}")
    )


def _title(study: Study | None) -> str:
    tables = [] if study is None else [each for each in study.artefacts if each[:5] == "Table"]
    if study is None:
        return "ACC and BWT"
    return f"{study.title} ({', '.join(tables)} of the paper)" if tables else study.title


def _notes(groups: Sequence[Group], lines: Sequence[Line]) -> list[str]:
    counts = sorted({len(group.records) for group in groups})
    few, many = counts[0], counts[-1]
    seeds = f"{few} to {many} seeds" if few < many else "1 seed" if many == 1 else f"{many} seeds"
    notes = [f"In percent, mean ± standard deviation over {seeds}. {BOLD}"]
    bounds = [line.title for line in lines if line.method in BOUNDS]
    if bounds:
        verb = "is a bound, not a rival" if len(bounds) == 1 else "are bounds, not rivals"
        notes.append(f"{' and '.join(bounds)} {verb}.")
    if any((group.mean("bwt") or 0) > 0 for group in groups):
        notes.append(POSITIVE)
    return [*notes, *protocol_notes(groups)]
