"""Charts of a diagnosis: distance and lean by depth, accuracy by statistics, and the answers.
Colours are those of Okabe and Ito; shapes differ too."""

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from bntricks.doctor.diagnosis import Diagnosis
from bntricks.doctor.groups import class_shares
from bntricks.doctor.verdict import FAR
from bntricks.report.figures.figure import COLOURS, LETTER, SHAPES, Figure, tooltip

Rows = list[dict[str, Any]]

WIDE = 640
CELL = 36
DISTANCE = "distance from the population"
DISTANCES = ("distance", "mean shift", "log variance ratio")
PARTS = ("old classes", "newest classes", "all classes")


def figures(diagnosis: Diagnosis) -> Iterator[Figure]:
    """Draw every chart of the page, in order."""
    yield accuracies(diagnosis)
    if diagnosis.remedies:
        yield gap(diagnosis)
    yield distances(diagnosis)
    if any(layer.shares is not None for layer in diagnosis.layers):
        yield lean(diagnosis)
    if diagnosis.as_is.answers is not None:
        yield answers(diagnosis)


def distances(diagnosis: Diagnosis) -> Figure:
    """Draw the distance of φ from the balanced population, by depth."""
    rows: Rows = [
        {"depth": depth, "layer": layer.name, "measure": measure, "value": value}
        for depth, layer in enumerate(diagnosis.layers, start=1)
        for measure, value in zip(
            DISTANCES, (layer.distance, layer.shift, layer.log_ratio), strict=True
        )
    ]
    chart = by_depth(rows, DISTANCES, DISTANCE, dashed=FAR)
    text = (
        "From the input on the left to the output on the right. The distance is that of two normal "
        "distributions, √(2·KL), in standard deviations; the mean shift and the log variance ratio "
        f"are its parts. Dashed: {FAR}, from where on a layer counts as far."
    )
    return Figure("distance", "Distance of φ from the balanced population", text, chart, rows)


def lean(diagnosis: Diagnosis) -> Figure:
    """Draw the newest group's share of φ, by depth."""
    newest, even = diagnosis.groups[-1].name, class_shares(diagnosis.groups)[-1]
    rows: Rows = [
        {
            "depth": depth,
            "layer": layer.name,
            "measure": "newest",
            "value": None if layer.shares is None else layer.shares[newest],
        }
        for depth, layer in enumerate(diagnosis.layers, start=1)
    ]
    share = alt.Scale(domain=[0, 1])
    chart = by_depth(rows, ("newest",), "share of the newest group", dashed=even, scale=share)
    text = (
        f"1 would be a φ that followed {newest} alone. Dashed: {even:.2f}, the share in a balanced "
        "population. Layers where it cannot be determined have no point."
    )
    return Figure("lean", f"Share of the newest group ({newest}) in φ", text, chart, rows)


def accuracies(diagnosis: Diagnosis) -> Figure:
    """Draw the accuracy of the same weights with other statistics."""
    rows: Rows = [
        {"statistics": f"φ {tried.statistics}", "part": part, "accuracy": value}
        for tried in diagnosis.counterfactuals
        for part, value in zip(PARTS, (tried.old, tried.newest, tried.all), strict=True)
    ]
    height = max(120, 26 * len(diagnosis.counterfactuals))
    tips = {"statistics:N": "statistics", "part:N": "on", "accuracy:Q .2f": "accuracy, %"}
    chart = (
        alt.Chart(alt.InlineData(values=rows), width=WIDE, height=height)
        .mark_point(filled=True, size=90)
        .encode(
            x=alt.X("accuracy:Q", title="accuracy, %", scale=alt.Scale(domain=[0, 100])),
            y=alt.Y("statistics:N", title=None, sort=None, axis=alt.Axis(grid=True)),
            color=alt.Color("part:N", title=None, scale=_scale(PARTS, COLOURS)),
            shape=alt.Shape("part:N", title=None, scale=_scale(PARTS, SHAPES)),
            tooltip=tooltip(tips),
        )
    )
    text = (
        "The same weights with φ as it is, of balanced data, and of data with this share of the "
        "newest classes."
    )
    beside = LETTER * max(len(row["statistics"]) for row in rows)
    return Figure("accuracy", "Accuracy with other statistics", text, chart, rows, beside=beside)


def gap(diagnosis: Diagnosis) -> Figure:
    """Draw how much of the gap between newest and old classes each remedy closes."""
    rows: Rows = [
        {
            "remedy": remedy.name,
            "closed": remedy.closed.points,
            "low": remedy.closed.low,
            "high": remedy.closed.high,
            "gap": remedy.gap,
        }
        for remedy in diagnosis.remedies[1:]
    ]
    whole = diagnosis.remedies[0].gap
    base = alt.Chart(alt.InlineData(values=rows), width=WIDE, height=26 * len(rows)).encode(
        y=alt.Y("remedy:N", title=None, sort=None, axis=alt.Axis(grid=True)),
        color=alt.value(COLOURS[0]),
    )
    ends = {"low:Q .2f": "from", "high:Q .2f": "to"}
    tips = {"remedy:N": "remedy", "closed:Q .2f": "closed, points", **ends}
    interval = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title="points of the gap closed"), x2="high:Q"
    )
    point = base.mark_point(filled=True, size=90).encode(
        x="closed:Q", tooltip=tooltip({**tips, "gap:Q .2f": "gap that is left"})
    )
    rule = alt.Chart(alt.InlineData(values=[{}])).mark_rule(strokeDash=[3, 3], aria=False)
    marks = rule.encode(x=alt.datum(0)) + rule.encode(x=alt.datum(whole))
    text = (
        f"The newest classes are {abs(whole):.1f} points {'behind' if whole < 0 else 'ahead of'} "
        "the old ones. Dashed: nothing of that gap, and all of it. Balanced φ is a swap of "
        "statistics. An aligned head has new rows as long as its old ones; an even prior takes the "
        "log of each class's mean probability off its logit. Lines are 95% intervals, paired over "
        "samples."
    )
    return Figure("gap", "φ or the head: what closes the gap", text, marks + interval + point, rows)


def answers(diagnosis: Diagnosis) -> Figure:
    """Draw which group's classes the samples of each group are taken for, before and after."""
    names = [group.name for group in diagnosis.groups]
    before_after = (diagnosis.as_is, diagnosis.balanced)
    any_outside = any(row[-1] for tried in before_after for row in tried.answers or ())
    columns = [*names, "no group's"] if any_outside else names
    rows: Rows = [
        {
            "statistics": f"φ {tried.statistics}",
            "group": name,
            "answered": answered,
            "share": 100 * count / sum(counts),
        }
        for tried in before_after
        for name, counts in zip(names, tried.answers or (), strict=True)
        for answered, count in zip(columns, counts, strict=False)
    ]
    tips = {"statistics:N": "statistics", "group:N": "samples of", "answered:N": "taken for"}
    base = alt.Chart(width=CELL * max(5, len(columns)), height=CELL * len(names)).encode(
        x=alt.X("answered:N", title="answered", sort=columns, axis=alt.Axis(labelLimit=150)),
        y=alt.Y("group:N", title="group", sort=names, axis=alt.Axis(labelLimit=150)),
        tooltip=tooltip({**tips, "share:Q .2f": "of them, %"}),
    )
    colour = alt.Color(
        "share:Q", title="samples, %", scale=alt.Scale(scheme="viridis", domain=[0, 100])
    )
    ink = alt.condition("datum.share > 55", alt.value("black"), alt.value("white"))
    cell = base.mark_rect().encode(color=colour)
    number = base.mark_text(fontSize=10).encode(text=alt.Text("share:Q", format=".0f"), color=ink)
    order = [f"φ {tried.statistics}" for tried in before_after]
    facet = alt.Facet("statistics:N", title=None, sort=order)
    chart = alt.layer(cell, number, data=alt.InlineData(values=rows)).facet(facet=facet, columns=2)
    text = "Samples of each group (down), by the group of the class that is answered (across)."
    return Figure("answers", "Answers by group, before and after", text, chart, rows)


def by_depth(
    rows: Rows, measures: Sequence[str], title: str, *, dashed: float, scale: Any = alt.Undefined
) -> Any:
    """Draw a line for each measure, from layer to layer."""
    legend = alt.Undefined if len(measures) > 1 else None
    colours, shapes = _scale(measures, COLOURS), _scale(measures, SHAPES)
    tips = {"layer:N": "layer", "depth:O": "depth", "measure:N": "measure", "value:Q .3f": "value"}
    base = alt.Chart(alt.InlineData(values=rows), width=WIDE, height=260).encode(
        x=alt.X(
            "depth:O",
            title="BatchNorm layer, in the order of the pass",
            axis=alt.Axis(labelAngle=0, labelOverlap=True),
        ),
        y=alt.Y("value:Q", title=title, scale=scale),
        color=alt.Color("measure:N", title=None, scale=colours, legend=legend),
    )
    point = base.mark_point(filled=True, size=55).encode(
        shape=alt.Shape("measure:N", title=None, scale=shapes, legend=legend),
        tooltip=tooltip(tips),
    )
    rule = alt.Chart(alt.InlineData(values=[{}])).mark_rule(strokeDash=[3, 3], aria=False)
    return rule.encode(y=alt.datum(dashed)) + (base.mark_line(strokeWidth=1.5) + point)


def _scale(names: Sequence[str], values: Sequence[str]) -> alt.Scale:
    return alt.Scale(domain=list(names), range=list(values[: len(names)]))
