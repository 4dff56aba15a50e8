"""The figures, as Altair charts: one definition for the page and for the paper. Colours are those
of Okabe and Ito, and dash and shape tell lines apart without them; a click in a legend picks
methods out, and the parameter `hidden` takes methods away. Fonts, axes and background are left to
whoever shows a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import altair as alt

from bntricks.report.groups import Group, cut_down_label, stream_title
from bntricks.report.series import cost_rows, curve_rows, matrix_rows, task_rows, verdict_rows
from bntricks.report.verdicts import Judgement

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#888888")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
VERDICTS = {
    "holds": ("#0072B2", "circle"),
    "does not hold": ("#D55E00", "cross"),
    "undecided": ("#888888", "square"),
    "the paper": ("#CC79A7", "diamond"),
}
NUMBERS_UP_TO = 10
"""Tasks up to which a matrix has room for numbers in its cells."""
ACCURACY = alt.Scale(domain=[0, 100])
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
"""The version that a figure's spec is written in."""


@dataclass(frozen=True)
class Figure:
    """A chart, the rows it draws, and what it shows in words."""

    name: str
    title: str
    text: str
    chart: Any
    rows: list[dict[str, Any]]

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite. Made once, as it takes longer than all else in a report."""
        spec: dict[str, Any] = self.chart.to_dict()
        spec.pop("config", None)
        # The description is what a screen reader says.
        return {**spec, "description": f"{self.title}. {self.text}"}


def curves(groups: Sequence[Group]) -> Figure:
    """ACC over the tasks seen so far, after each task (Figure 3, left)."""
    rows = list(curve_rows(groups))
    x = alt.X("task:O", title="after task", axis=alt.Axis(labelAngle=0))
    y = alt.Y("acc:Q", title="ACC, %", scale=ACCURACY)
    chart = _picked(rows)
    # Not opacity: the legend would take it over.
    band = chart.mark_area(clip=True).encode(
        x=x,
        y=alt.Y("low:Q", title="ACC, %", scale=ACCURACY),
        y2="high:Q",
        color=_colour(groups),
        fillOpacity=_faded(0.15, 0.02),
    )
    look = {"color": _colour(groups), "opacity": _faded()}
    line = chart.mark_line(strokeWidth=2).encode(x=x, y=y, strokeDash=_dash(groups), **look)
    tips = [_TIP_LABEL, _tip("task", "after task", "O"), *_TIPS_ACC, _TIP_SEEDS]
    point = chart.mark_point(filled=True, size=55).encode(
        x=x, y=y, shape=_shape(groups), tooltip=tips, **look
    )
    text = "Mean accuracy over the tasks seen so far, after each task. Bands: ± standard deviation."
    return _figure("curves", "ACC after each task", text, groups, band + line + point, rows)


def per_task(groups: Sequence[Group]) -> Figure:
    """Accuracy on each task in the end."""
    rows = list(task_rows(groups))
    x = alt.X("task:O", title="task", axis=alt.Axis(labelAngle=0))
    offset = alt.XOffset("label:N", sort=_labels(groups))
    look = {"x": x, "xOffset": offset, "color": _colour(groups), "opacity": _faded()}
    chart = _picked(rows)
    title = "final accuracy, %"
    span = chart.mark_rule(clip=True).encode(
        y=alt.Y("low:Q", title=title, scale=ACCURACY), y2="high:Q", **look
    )
    point = chart.mark_point(filled=True, size=45).encode(
        y=alt.Y("acc:Q", title=title, scale=ACCURACY),
        shape=_shape(groups),
        tooltip=[_TIP_LABEL, _tip("task", "task", "O"), *_TIPS_ACC, _TIP_SEEDS],
        **look,
    )
    text = "Accuracy on each task after the last one. Lines: ± standard deviation."
    return _figure("per-task", "Final accuracy by task", text, groups, span + point, rows)


def matrices(groups: Sequence[Group]) -> Figure:
    """R for each method, as a mean over seeds."""
    rows = list(matrix_rows(groups))
    tasks = max(row["after"] for row in rows)
    side = max(130, 18 * tasks)
    base = alt.Chart(width=side, height=side).encode(
        x=alt.X("task:O", title="task", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("after:O", title="after task"),
        tooltip=[
            *(_TIP_LABEL, _tip("after", "after task", "O"), _tip("task", "task", "O")),
            *(*_TIPS_ACC, _TIP_SEEDS),
        ],
    )
    scale = alt.Scale(scheme="viridis", domain=[0, 100])
    cell = base.mark_rect().encode(color=alt.Color("acc:Q", title="accuracy, %", scale=scale))
    layers = [cell]
    if tasks <= NUMBERS_UP_TO:
        ink = alt.condition("datum.acc > 55", alt.value("black"), alt.value("white"))
        text = base.mark_text(fontSize=10).encode(text=alt.Text("acc:Q", format=".0f"), color=ink)
        layers.append(text)
    facet = alt.Facet("label:N", title=None, sort=_labels(groups))
    chart = alt.layer(*layers, data=alt.InlineData(values=rows)).transform_filter(_NOT_HIDDEN)
    text = "Accuracy on each task (across) after each task learned (down), mean over seeds."
    shown = chart.facet(facet=facet, columns=3).add_params(_HIDDEN)
    return _figure("matrices", "Accuracy matrices", text, groups, shown, rows)


def cost(groups: Sequence[Group]) -> Figure:
    """ACC against the passes of a step."""
    rows = list(cost_rows(groups))
    x = alt.X(
        "forwards_per_step:Q",
        title="forward passes a step",
        scale=alt.Scale(zero=False, nice=True, padding=15),
    )
    look = {"x": x, "color": _colour(groups), "opacity": _faded()}
    chart = _picked(rows)
    y = alt.Scale(zero=False, padding=10)
    span = chart.mark_rule().encode(y=alt.Y("low:Q", title="ACC, %", scale=y), y2="high:Q", **look)
    tips = [
        _tip("forwards_per_step", "forwards a step", "Q", ".2f"),
        _tip("images_per_second", "images/s", "Q", ",.0f"),
    ]
    point = chart.mark_point(filled=True, size=90).encode(
        y=alt.Y("acc:Q", title="ACC, %", scale=y),
        shape=_shape(groups),
        tooltip=[_TIP_LABEL, *_TIPS_ACC, *tips, _TIP_SEEDS],
        **look,
    )
    text = "ACC against forward passes in a step, tracking included; images/s are of the machine."
    return _figure("cost", "Cost and accuracy", text, groups, span + point, rows)


def verdict_chart(judgements: Sequence[Judgement], remark: str = "") -> Figure | None:
    """The claims' differences with their intervals, beside the paper's; None if no claim was run.
    The remark, such as "(cut-down data)", stands beside the axis."""
    rows = list(verdict_rows(judgements))
    if not rows:
        return None
    colours, shapes = (
        alt.Scale(domain=list(VERDICTS), range=list(values))
        for values in zip(*VERDICTS.values(), strict=True)
    )
    colour = alt.Color("shown:N", title=None, scale=colours)
    y = alt.Y("claim:N", title=None, sort=None, axis=alt.Axis(grid=True))
    title = f"difference in points {remark}".rstrip()
    pick = alt.selection_point(fields=["shown"], bind="legend", name="pick", toggle="true")
    base = alt.Chart(
        alt.InlineData(values=rows), height=20 * len({row["claim"] for row in rows}), width=520
    )
    span = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=title, axis=alt.Axis(titleAnchor="end")),
        x2="high:Q",
        y=y,
        color=colour,
        opacity=_faded(),
    )
    tips = [
        *(_tip("text", "claim", "N"), _tip("where", "where", "N"), _tip("shown", "verdict", "N")),
        *(_tip("difference", "difference", "Q", ".2f"), _tip("low", "from", "Q", ".2f")),
        *(_tip("high", "to", "Q", ".2f"), _TIP_SEEDS),
    ]
    point = base.mark_point(filled=True, size=60).encode(
        x=alt.X("difference:Q", title=title, axis=alt.Axis(titleAnchor="end")),
        y=y,
        color=colour,
        shape=alt.Shape("shown:N", title=None, scale=shapes),
        opacity=_faded(),
        tooltip=tips,
    )
    zero = (
        alt.Chart(alt.InlineData(values=[{}])).mark_rule(strokeDash=[3, 3]).encode(x=alt.datum(0))
    )
    text = "Differences A minus B with 95% intervals over seeds, and the paper's own differences."
    chart = alt.layer(zero, span, point).add_params(pick)
    return Figure("differences", "Claims, ours and the paper's", text, chart, rows)


def _figure(
    name: str,
    title: str,
    text: str,
    groups: Sequence[Group],
    chart: Any,
    rows: list[dict[str, Any]],
) -> Figure:
    """A figure of one stream."""
    stream = groups[0].stream
    full_title = f"{title}, {stream_title(stream)} {cut_down_label(groups)}".rstrip()
    if name != "matrices":
        pick = alt.selection_point(fields=["label"], bind="legend", name="pick", toggle="true")
        chart = chart.properties(width=640, height=320).add_params(_HIDDEN, pick)
    return Figure(f"{name}-{stream}", full_title, text, chart, rows)


_HIDDEN = alt.param(name="hidden", value=[])
_NOT_HIDDEN = "indexof(hidden, datum.label) < 0"


def _picked(rows: list[dict[str, Any]]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=rows)).transform_filter(_NOT_HIDDEN)


def _labels(groups: Sequence[Group]) -> list[str]:
    return [group.label for group in groups]


def _scale(groups: Sequence[Group], values: Sequence[Any], every: int = 1) -> alt.Scale:
    chosen = [values[index // every % len(values)] for index in range(len(groups))]
    return alt.Scale(domain=_labels(groups), range=chosen)


def _colour(groups: Sequence[Group]) -> alt.Color:
    return alt.Color("label:N", title=None, scale=_scale(groups, COLOURS))


def _dash(groups: Sequence[Group]) -> alt.StrokeDash:
    return alt.StrokeDash("label:N", title=None, scale=_scale(groups, DASHES, len(COLOURS)))


def _shape(groups: Sequence[Group]) -> alt.Shape:
    return alt.Shape("label:N", title=None, scale=_scale(groups, SHAPES))


def _faded(shown: float = 1.0, faded: float = 0.12) -> Any:
    return (
        alt.when(alt.selection_point(name="pick"))
        .then(alt.value(shown))
        .otherwise(alt.value(faded))
    )


def _tip(field: str, title: str, kind: str, form: str | None = None) -> alt.Tooltip:
    shown = alt.Undefined if form is None else form
    return alt.Tooltip(f"{field}:{kind}", title=title, format=shown)


_TIP_LABEL = _tip("label", "method", "N")
_TIPS_ACC = (_tip("acc", "accuracy, %", "Q", ".2f"), _tip("sd", "± sd", "Q", ".2f"))
_TIP_SEEDS = _tip("seeds", "seeds", "Q")
