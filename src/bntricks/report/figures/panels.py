"""Charts with a panel for each method: the accuracy of each task over time (Figure 3, right), and
whole accuracy matrices. Panels have axes of their own, so that any number fits side by side."""

import textwrap
from collections.abc import Sequence
from typing import Any

import altair as alt

from bntricks.report.figures.figure import (
    LETTER,
    UPRIGHT,
    WIDTH,
    Figure,
    Row,
    each,
    fitting,
    of_stream,
    spread,
    tips,
)
from bntricks.report.groups import RunGroup, on_chart

MOST_PANELS = 4
"""What fits side by side; figures of more are folded."""
NUMBERS_UP_TO = 10
"""Tasks up to which a matrix has room for numbers in its cells."""
WHERE = {"after:O": "after task", "task:O": "task"}
"""Lines of a tooltip."""
BESIDE = 60
"""What a panel needs beside its width: its axis, and some air."""
WIDEST = 280
"""A panel, which has to fit a phone."""
PERCENT = alt.Scale(scheme="viridis", domain=[0, 100])
BREAK = "¶"
"""Between the lines of a panel's name; a control character would be escaped."""


def matrices(groups: Sequence[RunGroup]) -> Figure:
    """Draw R for each method, as a mean over seeds."""
    rows = _rows(groups)
    tasks = max(row["after"] for row in rows)
    side = max(150, min(18 * tasks, WIDEST))
    chart = alt.Chart(width=side, height=side).encode(
        x=alt.X("task:O", title="task", axis=UPRIGHT),
        y=alt.Y("after:O", title="after task"),
        tooltip=tips(WHERE),
    )
    colour = alt.Color("acc:Q", title="accuracy, %", scale=PERCENT)
    layers = [chart.mark_rect().encode(color=colour)]
    if tasks <= NUMBERS_UP_TO:
        ink = alt.condition("datum.acc > 45", alt.value("black"), alt.value("white"))
        number = alt.Text("acc:Q", format=".0f")
        layers.append(chart.mark_text(fontSize=10).encode(text=number, color=ink))
    text = "Accuracy on each task (across) after each task learned (down), mean over seeds."
    shown = on_chart(groups)
    whole, folded = _panels(layers, _rows(shown), side), len(shown) > MOST_PANELS
    return of_stream("matrices", "Accuracy matrices", text, groups, whole, rows, folded=folded)


def task_lines(groups: Sequence[RunGroup]) -> Figure | None:
    """Draw accuracy on each task after every later one (Figure 3, right), if there are several."""
    again = [group for group in groups if not group.joint]
    rows = _rows(again) if again else []
    if not any(each.drawn for each in again) or max(row["after"] for row in rows) < 2:
        return None
    shown = on_chart(again)
    drawn = _rows(shown)
    low, high = fitting(drawn)
    side = 190
    # Neither the darkest colours, which a dark page would swallow, nor the lightest.
    viridis = alt.SchemeParams(name="viridis", extent=[0.22, 0.95])
    scale = alt.Scale(scheme=viridis, reverse=True)
    chart = alt.Chart(width=side, height=side).encode(
        x=alt.X("after:O", title="after task", axis=UPRIGHT),
        y=alt.Y("acc:Q", title="accuracy, %", scale=alt.Scale(domain=[low, high], nice=False)),
        color=alt.Color("task:O", title="task", scale=scale),
    )
    layers = [
        chart.mark_line(strokeWidth=2),
        chart.mark_point(filled=True, size=35, opacity=1).encode(tooltip=tips(WHERE)),
    ]
    text = "Accuracy on each task, from when it was learned to the end, mean over seeds."
    whole, folded = _panels(layers, drawn, side), len(shown) > MOST_PANELS
    return of_stream("over-time", "Each task over time", text, again, whole, rows, folded=folded)


def _rows(groups: Sequence[RunGroup]) -> list[Row]:
    return [
        {**row, "after": after, "task": task}
        for group in groups
        for after, lines in each(record.accuracy for record in group.records)
        for task, values in each(lines)
        if (row := spread(group, values))
    ]


def _panels(layers: Sequence[Any], rows: list[Row], side: int) -> Any:
    shown, facet = by_method(rows, side)
    chart = alt.layer(*layers, data=alt.InlineData(values=shown))
    return facetted(chart, facet, columns=max(1, (WIDTH + 120) // (side + BESIDE)))


def facetted(chart: Any, facet: alt.Facet, columns: int) -> Any:
    """Draw a panel with its own axes for each method."""
    whole = chart.facet(facet=facet, columns=columns)
    return whole.resolve_axis(x="independent", y="independent")


def by_method(rows: Sequence[Row], side: int) -> tuple[list[Row], alt.Facet]:
    """Return the rows with their panels, and the panels in order. Long names are split into lines,
    as a header would cut them."""
    names = {row["label"]: textwrap.wrap(row["label"], int(side / LETTER)) for row in rows}
    panels = {label: BREAK.join(lines) for label, lines in names.items()}
    header = alt.Header(labelExpr=f"split(datum.label, '{BREAK}')", labelLimit=0, title=None)
    facet = alt.Facet("panel:N", title=None, sort=[*panels.values()], header=header)
    return [{**row, "panel": panels[row["label"]]} for row in rows], facet
