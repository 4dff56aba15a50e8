"""The result of a search for hyper-parameters: the result of each cell, the best and how certain it
is, and the command that trains it on all training images."""

from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any

import altair as alt

from bntricks.report.commands import run_command
from bntricks.report.figures.figure import COLOURS, SEEDS, UPRIGHT, Figure, Row, tooltip
from bntricks.report.page.html import Section, figure_html, table_html
from bntricks.report.records import by_seed
from bntricks.report.statistics import Estimate, difference, mean, sd
from bntricks.report.tables.table import Cell as TableCell, Table, drawable, number, table_of
from bntricks.runs.config import Config
from bntricks.runs.record import Record


@dataclass(frozen=True, slots=True)
class SearchCell:
    """Values of the searched options, and the runs with them."""

    knobs: dict[str, Any]
    records: tuple[Record, ...]
    failed: int = 0
    """Seeds whose run did not finish."""

    @property
    def acc(self) -> float | None:
        return mean([record.acc for record in self.records])

    @property
    def sd(self) -> float | None:
        return sd([record.acc for record in self.records])

    def __str__(self) -> str:
        return ", ".join(f"{knob} {worded(value)}" for knob, value in self.knobs.items())


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search, cell by cell in the order of the search."""

    cells: tuple[SearchCell, ...]

    @property
    def ranked(self) -> list[SearchCell]:
        """The cells whose runs have all finished, best first; of two equal ones, the earlier."""
        whole = [cell for cell in self.cells if cell.records and not cell.failed]
        return sorted(whole, key=lambda cell: -(cell.acc or 0.0))

    @property
    def best(self) -> SearchCell | None:
        return next(iter(self.ranked), None)

    @property
    def lead(self) -> Estimate:
        """The difference of the best cell and the next, seed by seed."""
        if len(self.ranked) < 2:
            return Estimate()
        first, second = (by_seed(cell.records, "acc") for cell in self.ranked[:2])
        return difference(first, second)

    @property
    def config(self) -> Config | None:
        """The best cell's configuration, for training on all training images."""
        if self.best is None:
            return None
        return self.best.records[0].config.model_copy(update={"validation": None})

    def __str__(self) -> str:
        """Name the best cell, and say whether that is certain."""
        if self.best is None:
            return "No cell has finished all of its runs."
        text = f"Best on validation images: {self.best} (ACC {self.best.acc:.1f})"
        if self.lead.mean is None:
            return f"{text}."
        text += f", {self.lead.mean:.1f} more than {self.ranked[1]}"
        if self.lead.low is None or self.lead.high is None:
            return f"{text}; one seed cannot show whether this is chance."
        interval = f"95% interval {self.lead.low:.1f} to {self.lead.high:.1f}"
        sure = "" if round(self.lead.low, 1) > 0 else "; more seeds may choose another"
        return f"{text} ({interval}{sure})."


def command(result: SearchResult) -> str | None:
    """Write the command that trains the best cell on all training images, and tests it."""
    return None if result.config is None else run_command(result.config)


def worded(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def table(result: SearchResult) -> Table:
    """Tabulate cells, best first; those that failed come last."""
    best = result.best
    rest = [cell for cell in result.cells if cell.failed or not cell.records]
    rows = [
        {
            **{knob: _knob(value) for knob, value in cell.knobs.items()},
            "ACC": replace(number(cell.acc, sd=cell.sd), bold=cell is best),
            "Seeds": number(len(cell.records), 0),
            "Failed": number(cell.failed, 0) if cell.failed else TableCell(),
        }
        for cell in [*result.ranked, *rest]
    ]
    note = "ACC on validation images, mean ± standard deviation over seeds. No test image was used."
    return table_of("Search", rows, [note, str(result)])


def heat_map(result: SearchResult) -> Figure | None:
    """Tabulate ACC by the values of two options; None if these cells make no map."""
    if not is_map(result):
        return None
    names = list(result.cells[0].knobs)
    rows: list[Row] = [
        {
            **{name: drawable(worded(value)) for name, value in cell.knobs.items()},
            "acc": cell.acc,
            "sd": cell.sd,
            "seeds": len(cell.records),
        }
        for cell in result.cells
        if cell.acc is not None
    ]
    if not rows:
        return None
    # Fields by position: a knob's name may mean something to the charting library.
    drawn = [{**row, "a": row[names[0]], "b": row[names[1]]} for row in rows]
    down, across = (axis_values(result, name) for name in names)
    ordered = [[drawable(worded(value)) for value in values] for values in (down, across)]
    tips = {"a:N": names[0], "b:N": names[1]}
    base = alt.Chart(alt.InlineData(values=drawn)).encode(
        x=alt.X("b:O", title=names[1], sort=ordered[1], axis=alt.Axis(labelAngle=0)),
        y=alt.Y("a:O", title=names[0], sort=ordered[0]),
        tooltip=tooltip({**tips, "acc:Q .2f": "ACC, %", "sd:Q .2f": "± sd", **SEEDS}),
    )
    accs = [row["acc"] for row in rows]
    scale = alt.Scale(scheme="viridis", domain=[min(accs), max(accs)])
    middle = (min(accs) + max(accs)) / 2
    ink = alt.condition(f"datum.acc > {middle}", alt.value("black"), alt.value("white"))
    chart = base.mark_rect().encode(color=alt.Color("acc:Q", title="ACC, %", scale=scale))
    chart += base.mark_text().encode(text=alt.Text("acc:Q", format=".1f"), color=ink)
    chart = chart.properties(width=max(160, 70 * len(across)), height=max(90, 40 * len(down)))
    text = "ACC on validation images, mean over seeds."
    return Figure("search", f"ACC by {names[0]} and {names[1]}", text, chart, rows)


def figures(result: SearchResult) -> list[Figure]:
    """Draw ACC over each option and, if these cells make one, the map of two."""
    return [figure for figure in (heat_map(result), over_options(result)) if figure is not None]


def over_options(result: SearchResult) -> Figure | None:
    """Draw the ACC of every cell over the values of each option; None if fewer than two have
    finished runs."""
    cells = [cell for cell in result.cells if cell.acc is not None]
    if len(cells) < 2:
        return None
    names = list(cells[0].knobs)
    rows: list[Row] = []
    for cell in cells:
        acc, spread = cell.acc or 0.0, cell.sd or 0.0
        row: Row = {name: drawable(worded(value)) for name, value in cell.knobs.items()}
        row |= {"acc": acc, "low": acc - spread, "high": acc + spread, "sd": cell.sd}
        mark = "best" if cell is result.best else "others"
        rows.append({**row, "cell": drawable(str(cell)), "shown": mark, "seeds": len(cell.records)})
    panels = [_over(result, name, rows, joined=len(names) == 1) for name in names]
    text = "ACC on validation images, mean ± standard deviation over seeds; each point is a cell."
    chart = alt.concat(*panels, columns=2)
    title = f"ACC by {' and by '.join(names)}"
    return Figure("search-options", title, text, chart, rows, beside=90.0)


def _over(result: SearchResult, name: str, rows: list[Row], *, joined: bool) -> Any:
    """Draw the panel of one option. Numbers have their own distances, on a logarithmic axis if they
    span more than a factor of ten."""
    values = axis_values(result, name)
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    x: Any = alt.X("x:O", title=name, sort=[drawable(worded(v)) for v in values], axis=UPRIGHT)
    if numeric:
        wide = values[0] > 0 and values[-1] / values[0] > 10
        kind = {"type": "log"} if wide else {"type": "linear", "zero": False}
        scale = alt.Scale(**kind, nice=False, padding=20)
        x = alt.X("x:Q", title=name, scale=scale, axis=alt.Axis(values=values, labelOverlap=True))
    # A field of its own: an option's name may mean something to the charting library.
    drawn = [{**row, "x": float(row[name]) if numeric else row[name]} for row in rows]
    colours = alt.Scale(domain=["best", "others"], range=[COLOURS[1], COLOURS[0]])
    base = alt.Chart(alt.InlineData(values=drawn), width=300, height=220).encode(
        x=x, color=alt.Color("shown:N", title=None, scale=colours)
    )
    y = partial(alt.Y, title="ACC, %", scale=alt.Scale(zero=False, padding=10))
    tips = {"cell:N": "cell", "acc:Q .2f": "ACC, %", "sd:Q .2f": "± sd", **SEEDS}
    line = [base.mark_line(color="#888888").encode(x=x, y=y("acc:Q"), color=alt.value("#888888"))]
    span = base.mark_rule(strokeWidth=2).encode(y=y("low:Q"), y2="high:Q")
    dot = base.mark_point(filled=True, size=80, opacity=1)
    return alt.layer(*line * joined, span, dot.encode(y=y("acc:Q"), tooltip=tooltip(tips)))


def is_map(result: SearchResult) -> bool:
    """Whether two options were searched, and at least half of their combinations tried."""
    knobs = list(result.cells[0].knobs)
    if len(knobs) != 2:
        return False
    down, across = (len(axis_values(result, knob)) for knob in knobs)
    return down * across <= 2 * len(result.cells)


def axis_values(result: SearchResult, knob: str) -> list[Any]:
    """Order the values of an option for an axis: numbers by size, others as they came."""
    values = list(dict.fromkeys(cell.knobs[knob] for cell in result.cells))
    numeric = all(isinstance(value, int | float) for value in values)
    return sorted(values) if numeric else values


def section(result: SearchResult, made_by: str | None) -> Section:
    """Render the search as the first part of a report's page."""
    parts = [
        f"<p>{escape(str(result))}</p>",
        *map(figure_html, figures(result)),
        table_html(table(result), "search-table"),
    ]
    if made_by is not None:
        words = "The best cell, trained on all training images and tested on the test images:"
        parts.append(f"<p>{words}</p><pre>{escape(made_by)}</pre>")
    return Section("search-section", "Search", "".join(parts))


def _knob(value: Any) -> TableCell:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return TableCell(worded(value), float(value) if is_number else None)
