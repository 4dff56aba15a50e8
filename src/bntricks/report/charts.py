"""The figures, as Altair charts: one definition for the page and for the paper. Colours are those
of Okabe and Ito, and dash and shape tell lines apart without them; a click in a legend picks
methods out, and the parameter `hidden` takes methods away. Fonts, axes and background are left to
whoever shows a chart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import altair as alt

from bntricks.files import shown
from bntricks.paper import STREAMS
from bntricks.report.groups import Group, cut_down_label, stream_title
from bntricks.report.metrics import metric_title
from bntricks.report.results import compared
from bntricks.report.statistics import mean, sd
from bntricks.report.tables import drawable
from bntricks.report.verdicts import Judgement

Row = dict[str, Any]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#888888")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
VERDICTS = {
    "holds": ("#0072B2", "circle"),
    "does not hold": ("#D55E00", "cross"),
    "undecided": ("#888888", "square"),
    "not judged": ("#56B4E9", "triangle-up"),
    "the paper": ("#CC79A7", "diamond"),
}
NUMBERS_UP_TO = 10
"""Tasks up to which a matrix has room for numbers in its cells."""
ACCURACY = alt.Scale(domain=[0, 100])
UPRIGHT = alt.Axis(labelAngle=0)
TASK = alt.X("task:O", title="task", axis=UPRIGHT)
TIP_TASK = alt.Tooltip("task:O", title="task")
TIP_SEEDS = alt.Tooltip("seeds:Q", title="seeds")
HIDDEN = alt.param(name="hidden", value=[])
NOT_HIDDEN = "indexof(hidden, datum.label) < 0"
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
"""The version that a figure's spec is written in."""


@dataclass(frozen=True)
class Figure:
    """A chart, the rows it draws, and what it shows in words."""

    name: str
    title: str
    text: str
    chart: Any
    rows: list[Row]

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite. Made once, as it takes longer than all else in a report."""
        spec: dict[str, Any] = _drawable(self.chart.to_dict())
        spec.pop("config", None)
        # The description is what a screen reader says.
        return {**spec, "description": shown(f"{self.title}. {self.text}")}


def curves(groups: Sequence[Group]) -> Figure:
    """ACC over the tasks seen so far, after each task (Figure 3, left)."""
    rows = [
        {**row, "task": task}
        for group in groups
        for task, values in _each(r.metrics["acc_after_each_task"] for r in group.records)
        if (row := _spread(group, values))
    ]
    y = partial(alt.Y, title="ACC, %", scale=ACCURACY)
    base = _base(groups, rows, x=alt.X("task:O", title="after task", axis=UPRIGHT))
    # Not opacity: the legend would take it over.
    look = {"y": y("low:Q"), "y2": "high:Q", "fillOpacity": faded(0.15, 0.02)}
    band = base.mark_area(clip=True).encode(**look)
    dash = _by_label(alt.StrokeDash, groups, DASHES, every=len(COLOURS))
    line = base.mark_line(strokeWidth=2).encode(y=y("acc:Q"), strokeDash=dash, opacity=faded())
    tips = _tips(alt.Tooltip("task:O", title="after task"))
    point = _points(base, groups, size=55, y=y("acc:Q"), tooltip=tips)
    text = "Mean accuracy over the tasks seen so far, after each task. Bands: ± standard deviation."
    return _figure("curves", "ACC after each task", text, groups, band + line + point, rows)


def per_task(groups: Sequence[Group]) -> Figure:
    """Accuracy on each task in the end."""
    rows = [
        {**_spread(group, values), "task": task}
        for group in groups
        for task, values in _each(record.accuracy[-1] for record in group.records)
    ]
    y = partial(alt.Y, title="final accuracy, %", scale=ACCURACY)
    offset = alt.XOffset("label:N", sort=[group.label for group in groups])
    base = _base(groups, rows, x=TASK, xOffset=offset, opacity=faded())
    span = base.mark_rule(clip=True).encode(y=y("low:Q"), y2="high:Q")
    point = _points(base, groups, size=45, y=y("acc:Q"), tooltip=_tips(TIP_TASK))
    text = "Accuracy on each task after the last one. Lines: ± standard deviation."
    return _figure("per-task", "Final accuracy by task", text, groups, span + point, rows)


def matrices(groups: Sequence[Group]) -> Figure:
    """R for each method, as a mean over seeds."""
    rows = [
        {**row, "after": after, "task": task}
        for group in groups
        for after, lines in _each(record.accuracy for record in group.records)
        for task, values in _each(lines)
        if (row := _spread(group, values))
    ]
    tasks = max(row["after"] for row in rows)
    side = max(130, 18 * tasks)
    base = alt.Chart(width=side, height=side).encode(
        x=TASK,
        y=alt.Y("after:O", title="after task"),
        tooltip=_tips(alt.Tooltip("after:O", title="after task"), TIP_TASK),
    )
    scale = alt.Scale(scheme="viridis", domain=[0, 100])
    layers = [base.mark_rect().encode(color=alt.Color("acc:Q", title="accuracy, %", scale=scale))]
    if tasks <= NUMBERS_UP_TO:
        ink = alt.condition("datum.acc > 55", alt.value("black"), alt.value("white"))
        number = alt.Text("acc:Q", format=".0f")
        layers.append(base.mark_text(fontSize=10).encode(text=number, color=ink))
    facet = alt.Facet("label:N", title=None, sort=[group.label for group in groups])
    chart = alt.layer(*layers, data=alt.InlineData(values=rows)).transform_filter(NOT_HIDDEN)
    chart = chart.facet(facet=facet, columns=3).add_params(HIDDEN)
    text = "Accuracy on each task (across) after each task learned (down), mean over seeds."
    return _figure("matrices", "Accuracy matrices", text, groups, chart, rows)


def cost(groups: Sequence[Group]) -> Figure:
    """ACC against the passes of a step."""
    speed = ("forwards_per_step", "images_per_second")
    rows = [
        _spread(group, group.values("acc")) | {name: group.mean(name) for name in speed}
        for group in groups
    ]
    y = partial(alt.Y, title="ACC, %", scale=alt.Scale(zero=False, padding=10))
    scale = alt.Scale(zero=False, nice=True, padding=15)
    x = alt.X("forwards_per_step:Q", title="forward passes a step", scale=scale)
    base = _base(groups, rows, x=x, opacity=faded())
    span = base.mark_rule().encode(y=y("low:Q"), y2="high:Q")
    more = (
        alt.Tooltip("forwards_per_step:Q", title="forwards a step", format=".2f"),
        alt.Tooltip("images_per_second:Q", title="images/s", format=",.0f"),
    )
    point = _points(base, groups, size=90, y=y("acc:Q"), tooltip=_tips(more=more))
    text = "ACC against forward passes in a step, tracking included; images/s are of the machine."
    return _figure("cost", "Cost and accuracy", text, groups, span + point, rows)


def verdict_chart(judgements: Sequence[Judgement], remark: str = "") -> Figure | None:
    """The claims' differences with their intervals, beside the paper's; None if no claim was run.
    The remark, such as "(cut-down data)", stands beside the axis."""
    rows = list(_verdict_rows(judgements))
    if not rows:
        return None
    looks = {name: look for name, look in VERDICTS.items() if name in {r["shown"] for r in rows}}
    colours, shapes = (
        alt.Scale(domain=list(looks), range=list(values))
        for values in zip(*looks.values(), strict=True)
    )
    title = f"difference in points {remark}".rstrip()
    x = partial(alt.X, title=title, axis=alt.Axis(titleAnchor="end"))
    height = 20 * len({row["claim"] for row in rows})
    base = alt.Chart(alt.InlineData(values=rows), height=height, width=520).encode(
        y=alt.Y("claim:N", title=None, sort=None, axis=alt.Axis(grid=True)),
        color=alt.Color("shown:N", title=None, scale=colours),
        opacity=faded(),
    )
    span = base.mark_rule(strokeWidth=2).encode(x=x("low:Q"), x2="high:Q")
    words = {"text": "claim", "where": "where", "shown": "verdict"}
    points = {"difference": "difference", "low": "from", "high": "to"}
    point = base.mark_point(filled=True, size=60).encode(
        x=x("difference:Q"),
        shape=alt.Shape("shown:N", title=None, scale=shapes),
        tooltip=[
            *(alt.Tooltip(f"{field}:N", title=name) for field, name in words.items()),
            *(
                alt.Tooltip(f"{field}:Q", title=name, format=".2f")
                for field, name in points.items()
            ),
            TIP_SEEDS,
        ],
    )
    zero = alt.Chart(alt.InlineData(values=[{}])).mark_rule(strokeDash=[3, 3])
    chart = alt.layer(zero.encode(x=alt.datum(0)), span, point).add_params(legend_pick("shown"))
    text = "Differences A minus B with 95% intervals over seeds, and the paper's own differences."
    return Figure("differences", "Claims, ours and the paper's", text, chart, rows)


def legend_pick(field: str) -> alt.Parameter:
    """Clicks in the legend pick values of a field out."""
    return alt.selection_point(fields=[field], bind="legend", name="pick", toggle="true")


def faded(shown: float = 1.0, faded: float = 0.12) -> Any:
    """The opacity of what is picked, and of the rest."""
    picked = alt.when(alt.selection_point(name="pick"))
    return picked.then(alt.value(shown)).otherwise(alt.value(faded))


def _drawable(value: Any) -> Any:
    """A spec whose texts can be drawn, whatever names it was made of. Pictures are left alone."""
    match value:
        case dict():
            return {_drawable(key): _drawable(each) for key, each in value.items()}
        case list():
            return [_drawable(each) for each in value]
        case str() if not value.startswith("data:image/"):
            return drawable(value)
    return value


def _each(lists: Iterable[Sequence[Any]]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The first values of all lists, then the second ones, and so on, counted from 1."""
    return enumerate(zip(*lists, strict=True), start=1)


def _spread(group: Group, values: Sequence[float | None]) -> Row:
    """Mean, standard deviation, and the band of one deviation to either side; empty if no run has
    a value."""
    known = [value for value in values if value is not None]
    centre, width = mean(known), sd(known)
    if centre is None:
        return {}
    low, high = centre - (width or 0.0), centre + (width or 0.0)
    row = {"label": group.label, "acc": centre, "sd": width, "low": low, "high": high}
    return {**row, "seeds": len(known)}


def _verdict_rows(judgements: Sequence[Judgement]) -> Iterator[Row]:
    """Our difference in each claim that was run, and the paper's where its tables have it."""
    for number, judged in enumerate(judgements, start=1):
        if judged.ours is None:
            continue
        claim = judged.claim
        # The stream is named as the text names it.
        named = [title for title in STREAMS.values() if title in claim.text]
        stream = f", {max(named, key=len)}" if named else ""
        row = {
            "claim": f"{number}. {compared(claim)}, {metric_title(judged.metric)}{stream}",
            "text": claim.text,
            "where": claim.where,
            "shown": judged.verdict,
            "difference": judged.ours,
            "low": judged.low,
            "high": judged.high,
            "seeds": judged.seeds,
        }
        yield row
        if judged.paper is not None:
            paper = {"shown": "the paper", "difference": judged.paper}
            yield row | paper | dict.fromkeys(("low", "high", "seeds"))


def _figure(
    name: str, title: str, text: str, groups: Sequence[Group], chart: Any, rows: list[Row]
) -> Figure:
    """A figure of one stream."""
    stream = groups[0].stream
    full_title = f"{title}, {stream_title(stream)} {cut_down_label(groups)}".rstrip()
    if name != "matrices":
        chart = chart.properties(width=640, height=320).add_params(HIDDEN, legend_pick("label"))
    return Figure(f"{name}-{stream}", full_title, text, chart, rows)


def _base(groups: Sequence[Group], rows: list[Row], **channels: Any) -> Any:
    """What the layers of a chart share: rows of the methods that are shown, in their colours."""
    chart = alt.Chart(alt.InlineData(values=rows)).transform_filter(NOT_HIDDEN)
    return chart.encode(color=_by_label(alt.Color, groups, COLOURS), **channels)


def _points(base: Any, groups: Sequence[Group], size: int, **channels: Any) -> Any:
    shape = _by_label(alt.Shape, groups, SHAPES)
    return base.mark_point(filled=True, size=size).encode(shape=shape, opacity=faded(), **channels)


def _by_label(channel: Any, groups: Sequence[Group], looks: Sequence[Any], every: int = 1) -> Any:
    """A channel that tells methods apart, by the next look after every so many of them."""
    chosen = [looks[index // every % len(looks)] for index in range(len(groups))]
    scale = alt.Scale(domain=[group.label for group in groups], range=chosen)
    return channel("label:N", title=None, scale=scale)


def _tips(*where: alt.Tooltip, more: Sequence[alt.Tooltip] = ()) -> list[alt.Tooltip]:
    accuracy = alt.Tooltip("acc:Q", title="accuracy, %", format=".2f")
    deviation = alt.Tooltip("sd:Q", title="± sd", format=".2f")
    return [alt.Tooltip("label:N", title="method"), *where, accuracy, deviation, *more, TIP_SEEDS]
