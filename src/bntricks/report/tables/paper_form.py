"""Results in the form of the paper's tables: methods down, and ACC and BWT across, for each stream
(Table 3) or each size of the memory (Table 4), with the batches of Table 2 where that is the table.
`results.py` has the long list, with a row for each group of runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bntricks.paper import STREAMS, Study, load_reported
from bntricks.report.groups import RunGroup, best, by_stream, method_title, seeds_of, stream_title
from bntricks.report.protocol import paper_numbers, protocol_notes
from bntricks.report.tables.results import METRICS, measured, option_cells, reported
from bntricks.report.tables.table import SKIPPED, Cell, Table

BOUNDS = ("joint", "sgd")
"""Upper and lower bound: all data at once, and no protection against forgetting."""
BNT = "-bnt"
BOLD = "Bold: the best of the rows that share data and all options but the method."
POSITIVE = "A positive BWT is not bold: tasks were hardly known right after they were learned."


class Place(NamedTuple):
    """A column: a stream, and a size of the memory where several are compared."""

    stream: str
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A row: a method, and what distinguishes its runs."""

    method: str
    variant: str
    groups: dict[Place, RunGroup]


def paper_form(groups: Sequence[RunGroup], study: Study | None = None) -> Table:
    """Tabulate results as the paper does."""
    places = _places(groups)
    lines = _lines(groups, places, study)
    blocks = [_block(line, lines) for line in lines]
    firsts = [next(iter(line.groups.values())) for line in lines]
    columns = [("", "Method", [Cell(first.title) for first in firsts])]
    options = option_cells(firsts)
    across = {"Memory"} if any(place.memory is not None for place in places) else set()
    columns += [
        ("", name, [own[name] for own in options]) for name in options[0] if name not in across
    ]
    if study is not None and "Table 2" in study.artefacts:
        batches = [load_reported().batches.get(line.method) or ("–", "–") for line in lines]
        ema, parameters = ([Cell(text) for text in texts] for texts in zip(*batches, strict=True))
        columns += [("", "EMA", ema), ("", "Model parameters", parameters)]
    for place in places:
        head, own = _head(place, places), [line.groups.get(place) for line in lines]
        papers = [None if group is None else paper_numbers(group) for group in own]
        for metric in METRICS:
            name, bold = metric.upper(), {*_best(own, metric)}
            ours = [measured(group.values(metric) if group else ()) for group in own]
            ours = [replace(cell, bold=index in bold) for index, cell in enumerate(ours)]
            columns.append((head, name, ours))
            if any(papers):
                cells = [reported(each, metric) or SKIPPED for each in papers]
                columns.append((head, f"paper {name}", cells))
    return Table(
        title=_title(study),
        columns=tuple(name for _, name, _ in columns),
        rows=tuple(zip(*(cells for *_, cells in columns), strict=True)),
        notes=tuple(_notes(groups, lines)),
        heads=tuple(head for head, *_ in columns),
        rules=frozenset(i for i in range(1, len(lines)) if blocks[i] != blocks[i - 1]),
    )


def memories(groups: Sequence[RunGroup]) -> list[int | None]:
    """List the sizes of the memory, if some method was run with several; else None alone."""
    sized = [group for group in groups if group.knobs["memory"] is not None]
    methods = {(group.method, group.variant) for group in sized}
    if len(sized) == len(methods):
        return [None]
    return [*sorted({int(group.knobs["memory"]) for group in sized})]


def _places(groups: Sequence[RunGroup]) -> list[Place]:
    known = list(STREAMS)
    streams = sorted(by_stream(groups), key=lambda s: known.index(s) if s in known else len(known))
    own = {stream: memories([g for g in groups if g.stream == stream]) for stream in streams}
    return [Place(stream, memory) for stream in streams for memory in own[stream]]


def _lines(groups: Sequence[RunGroup], places: Sequence[Place], study: Study | None) -> list[Line]:
    """Order the rows: bounds first, then in the study's order, or the paper's, pairs together."""
    found: dict[tuple[str, str], dict[Place, RunGroup]] = {}
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
    """Return the block of a row: the bounds, a family of BN Tricks, or all others."""
    if line.method in BOUNDS:
        return "bounds"
    names = {each.method for each in lines}
    pairs = [name for name in names if f"{name}{BNT}" in names]
    family = [n for n in pairs if line.method == n or line.method.startswith(f"{n}-")]
    return f"family {max(family, key=len)}" if family else "others"


def _best(groups: Sequence[RunGroup | None], metric: str) -> Iterator[int]:
    """Find the best number of a column among comparable rivals, bounds aside. A positive BWT does
    not count: it means that tasks were hardly learned when new."""
    own = {i: g for i, g in enumerate(groups) if g is not None and g.method not in BOUNDS}
    means = [(group, group.mean(metric)) for group in own.values()]
    counted = [(g, None if metric == "bwt" and (v or 0) > 0 else v) for g, v in means]
    yield from (index for index, mark in zip(own, best(counted), strict=True) if mark)


def _head(place: Place, places: Sequence[Place]) -> str:
    if place.memory is None:
        return stream_title(place.stream)
    size = f"|M| = {place.memory}"
    streams = {each.stream for each in places}
    return size if len(streams) == 1 else f"{stream_title(place.stream)}, {size}"


def _title(study: Study | None) -> str:
    if study is None:
        return "ACC and BWT"
    tables = [each for each in study.artefacts if each.startswith("Table")]
    return f"{study.title} ({', '.join(tables)} of the paper)" if tables else study.title


def _notes(groups: Sequence[RunGroup], lines: Sequence[Line]) -> list[str]:
    notes = [f"In percent, mean ± standard deviation over {seeds_of(groups)}. {BOLD}"]
    bounds = list(dict.fromkeys(method_title(e.method) for e in lines if e.method in BOUNDS))
    if bounds:
        verb = "is a bound, not a rival" if len(bounds) == 1 else "are bounds, not rivals"
        notes.append(f"{' and '.join(bounds)} {verb}.")
    if any((group.mean("bwt") or 0) > 0 for group in groups):
        notes.append(POSITIVE)
    return [*notes, *protocol_notes(groups)]
