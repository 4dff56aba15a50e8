"""Line charts: ACC after each task (Figure 3, left), the final accuracy of each task (Figures 5 and
6), ACC over the size of the memory (Table 4), and ACC over the newest task's share of φ. Bands are
one deviation wide, and lines have their names at their ends if these are short enough, else in a
legend. Where methods differ in cost, a chart of points shows ACC over cost."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import altair as alt

from bntricks.report.figures.figure import (
    HEIGHT,
    LETTER,
    UPRIGHT,
    WIDTH,
    Figure,
    Row,
    base,
    by_label,
    each,
    faded,
    fitting,
    legend_pick,
    of_stream,
    points,
    spread,
    tips,
)
from bntricks.report.groups import RunGroup, first_drawn, on_chart
from bntricks.report.statistics import mean
from bntricks.runs.record.phi import AtShare

LONGEST_END = 30
"""Letters of a name at the end of a line."""
LINE_OF_TEXT = 14.0
"""Its height in points."""
BESIDE_ENDS = 18
"""How far names are from the figure, in points: room for what leads to them."""
TELLING = 0.1
"""Forward passes a step by which methods must differ for a figure of what they cost."""
TASKS = alt.Scale(type="point", padding=0.25)


Rows = Callable[[Sequence[RunGroup]], list[Row]]
"""What a figure shows of groups."""


def curves(groups: Sequence[RunGroup]) -> Figure:
    """Draw ACC over the tasks seen so far, after each task (Figure 3, left)."""
    text = "Mean accuracy over the tasks seen so far, after each task."
    x = alt.X("task:O", title="after task", axis=UPRIGHT, scale=TASKS)
    title, tip = "ACC after each task", {"task:O": "after task"}
    return _lines("curves", title, text, groups, _after_each_task, x, tip)


def _after_each_task(groups: Sequence[RunGroup]) -> list[Row]:
    return [
        {**row, "task": task}
        for group in groups
        for task, values in each(r.metrics["acc_after_each_task"] for r in group.records)
        if (row := spread(group, values))
    ]


def per_task(groups: Sequence[RunGroup]) -> Figure:
    """Draw the final accuracy on each task (Figures 5 and 6)."""
    text = "Accuracy on each task after the last one."
    x = alt.X("task:O", title="task", axis=UPRIGHT, scale=TASKS)
    title, tip, y_title = "Final accuracy by task", {"task:O": "task"}, "final accuracy, %"
    return _lines("per-task", title, text, groups, _in_the_end, x, tip, y_title=y_title)


def _in_the_end(groups: Sequence[RunGroup]) -> list[Row]:
    return [
        {**spread(group, values), "task": task}
        for group in groups
        for task, values in each(record.accuracy[-1] for record in group.records)
    ]


def over_memory(groups: Sequence[RunGroup]) -> Figure | None:
    """Draw ACC over |M|, if a method was run with several sizes."""
    sizes: dict[tuple[str, str], list[RunGroup]] = {}
    for group in groups:
        if group.knobs["memory"] is not None:
            sizes.setdefault((group.method, group.variant), []).append(group)
    several = {key: own for key, own in sizes.items() if len(own) > 1}
    if not several:
        return None
    firsts = first_drawn([replace(own[0], label=own[0].unsized) for own in several.values()])

    def sizes_of(firsts: Sequence[RunGroup]) -> list[Row]:
        return [
            {**spread(first, group.values("acc")), "memory": group.knobs["memory"]}
            for first in firsts
            for group in sorted(
                several[first.method, first.variant], key=lambda each: int(each.knobs["memory"])
            )
        ]

    rows = sizes_of(firsts)
    ticks = sorted({row["memory"] for row in rows})
    axis = alt.Axis(values=ticks, format="d", labelOverlap=True, grid=False)
    x = alt.X("memory:Q", title="|M|, images", scale=alt.Scale(type="log", nice=False), axis=axis)
    tip = {"memory:Q d": "|M|"}
    text = "ACC after the last task with memories of different size."
    return _lines("memory", "ACC over |M|", text, firsts, sizes_of, x, tip)


def over_share(groups: Sequence[RunGroup]) -> Figure | None:
    """Draw ACC over the newest task's share of φ, of runs with that probe."""
    probed = [g for g in groups if any(r.phi and r.phi.by_share for r in g.records)]
    rows = _at_shares(probed)
    if not rows or not any(group.drawn for group in probed):
        return None
    axis = alt.Axis(values=sorted({row["share"] for row in rows}), format="%", grid=False)
    x = alt.X("share:Q", title="newest task's share of φ", axis=axis)
    tip = {"share:Q .0%": "share"}
    text = (
        "What the same network would reach in the end, were φ estimated on batches with this share "
        "of the newest task's training images."
    )
    return _lines("share-of-phi", "ACC over the share of φ", text, probed, _at_shares, x, tip)


def _at_shares(groups: Sequence[RunGroup]) -> list[Row]:
    rows = []
    for group in groups:
        by_share: dict[float, list[AtShare]] = {}
        for record in group.records:
            for at in (record.phi and record.phi.by_share) or ():
                by_share.setdefault(at.share, []).append(at)
        for share, found in sorted(by_share.items()):
            parts = {part: mean([getattr(at, part) for at in found]) for part in ("old", "newest")}
            rows.append({**spread(group, [at.acc for at in found]), "share": share, **parts})
    return rows


def cost(groups: Sequence[RunGroup]) -> Figure | None:
    """Draw ACC against the passes of a step; None if a step costs all methods the same."""
    rows, shown = _at_cost(groups), on_chart(groups)
    passes = [row["forwards_per_step"] for row in rows if row["forwards_per_step"] is not None]
    if not passes or max(passes) - min(passes) < TELLING:
        return None
    y = partial(alt.Y, title="ACC, %", scale=alt.Scale(zero=False, padding=10))
    scale = alt.Scale(zero=False, nice=True, padding=15)
    axis = alt.Axis(labelOverlap=True, tickCount=5)
    x = alt.X("forwards_per_step:Q", title="forward passes a step", scale=scale, axis=axis)
    chart = base(shown, _at_cost(shown), x=x, opacity=faded())
    span = chart.mark_rule().encode(y=y("low:Q"), y2="high:Q")
    more = {"forwards_per_step:Q .2f": "forwards a step", "images_per_second:Q ,.0f": "images/s"}
    point = points(chart, shown, size=90, y=y("acc:Q"), tooltip=tips({}, more))
    whole = (span + point).properties(width=WIDTH, height=HEIGHT)
    whole = whole.add_params(legend_pick("label"))
    text = "ACC against forward passes in a step, tracking included; images/s are of the machine."
    return of_stream("cost", "Cost and accuracy", text, groups, whole, rows)


def _at_cost(groups: Sequence[RunGroup]) -> list[Row]:
    speed = ("forwards_per_step", "images_per_second")
    return [
        spread(group, group.values("acc")) | {name: group.mean(name) for name in speed}
        for group in groups
    ]


def _lines(
    kind: str,
    title: str,
    text: str,
    groups: Sequence[RunGroup],
    rows_of: Rows,
    x: alt.X,
    tip: dict[str, str],
    *,
    y_title: str = "ACC, %",
) -> Figure:
    shown = on_chart(groups)
    rows = rows_of(shown)
    low, high = fitting(rows)
    y = partial(alt.Y, title=y_title, scale=alt.Scale(domain=[low, high], nice=False))
    chart = base(shown, rows, x=x)
    # Not opacity: the legend would take it over.
    look = {"y": y("low:Q"), "y2": "high:Q", "fillOpacity": faded(0.13, 0.02)}
    band = chart.mark_area(clip=True).encode(**look)
    dash = by_label(alt.StrokeDash, shown, "dash")
    line = chart.mark_line(strokeWidth=2).encode(y=y("acc:Q"), strokeDash=dash, opacity=faded())
    point = points(chart, shown, size=45, y=y("acc:Q"), tooltip=tips(tip))
    longest = max(len(group.label) for group in shown)
    layers, ends = [band, line, point], 0.0
    if longest <= LONGEST_END and len(shown) * LINE_OF_TEXT <= HEIGHT:
        ends = LETTER * longest + BESIDE_ENDS
        layers += _ends(shown, rows, str(x.shorthand), (low, high), x, y)
    whole = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    whole = whole.add_params(legend_pick("label"))
    bands = "" if all(row["sd"] is None for row in rows) else " Bands: ± standard deviation."
    return of_stream(kind, title, text + bands, groups, whole, rows_of(groups), ends=ends)


def _ends(
    groups: Sequence[RunGroup],
    rows: Sequence[Row],
    x_field: str,
    domain: tuple[float, float],
    x: alt.X,
    y: partial[alt.Y],
) -> list[Any]:
    """Place the names at the right of the figure, apart, with a line from each to its own end."""
    field = x_field.partition(":")[0]
    last = {row["label"]: row for row in rows}
    right = max(row[field] for row in rows)
    least = LINE_OF_TEXT * (domain[1] - domain[0]) / HEIGHT
    heights = apart([last[group.label]["acc"] for group in groups], least, domain)
    places = [
        {"label": group.label, field: right, "acc": last[group.label]["acc"], "end": height}
        for group, height in zip(groups, heights, strict=True)
    ]
    chart = alt.Chart(alt.InlineData(values=places))
    leader = chart.mark_rule(x2Offset=BESIDE_ENDS - 6).encode(
        x=x,
        x2=alt.value("width"),
        y=y("acc:Q"),
        y2="end:Q",
        color=by_label(alt.Color, groups, "colour"),
        opacity=faded(0.6, 0.1),
    )
    # Names are in ink: not every method's colour can be read as text.
    name = chart.mark_text(align="left", dx=BESIDE_ENDS - 3, fontSize=11, baseline="middle").encode(
        x=alt.value("width"), y=y("end:Q"), text="label:N", opacity=faded(1.0, 0.3)
    )
    return [leader.properties(name="leaders"), name.properties(name="ends")]


def apart(values: Sequence[float], least: float, domain: tuple[float, float]) -> list[float]:
    """Move values as little as possible to have this distance, in the same order."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    # Neighbours that are too close form a cluster, which is spread around its mean.
    clusters: list[list[float]] = []
    for index in order:
        cluster = [values[index]]
        while clusters and (
            _bottom(cluster, least, domain) - _bottom(clusters[-1], least, domain)
            < least * len(clusters[-1])
        ):
            cluster = clusters.pop() + cluster
        clusters.append(cluster)
    moved = [
        _bottom(cluster, least, domain) + least * rank
        for cluster in clusters
        for rank in range(len(cluster))
    ]
    return [height for _, height in sorted(zip(order, moved, strict=True))]


def _bottom(cluster: Sequence[float], least: float, domain: tuple[float, float]) -> float:
    """Return the lowest place of a cluster that is spread around its mean."""
    span = least * (len(cluster) - 1)
    middle = sum(cluster) / len(cluster)
    return max(domain[0], min(middle - span / 2, domain[1] - span))
