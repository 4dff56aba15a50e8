"""The diagnosis as charts: distance and lean by depth, accuracy by statistics, and the answers.
Colours are those of Okabe and Ito, told apart again by shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from bntricks.doctor.diagnosis import Counterfactual, Diagnosis
from bntricks.doctor.groups import class_shares
from bntricks.doctor.verdict import FAR
from bntricks.report.charts import COLOURS, SHAPES, Figure

Rows = list[dict[str, Any]]

WIDE = 640
CELL = 36
DISTANCES = ("distance", "mean shift", "log variance ratio")
PARTS = ("old classes", "newest classes", "all classes")


def figures(found: Diagnosis) -> Iterator[Figure]:
    """Every chart of the page, in the order they are read."""
    yield accuracies(found)
    yield distances(found)
    if any(layer.shares is not None for layer in found.layers):
        yield lean(found)
    if found.as_is.answers is not None:
        yield answers(found)


def distances(found: Diagnosis) -> Figure:
    """How far φ is from the balanced population, by depth."""
    rows: Rows = [
        {"depth": depth, "layer": layer.name, "measure": name, "value": value}
        for depth, layer in enumerate(found.layers, start=1)
        for name, value in zip(
            DISTANCES, (layer.distance, layer.shift, layer.log_ratio), strict=True
        )
    ]
    chart = _by_depth(rows, "measure", DISTANCES, "distance from the population")
    limit = alt.Chart(alt.InlineData(values=[{}])).mark_rule(strokeDash=[3, 3])
    text = (
        "From the input on the left to the output on the right. The distance is that of two normal "
        "distributions, √(2·KL), in standard deviations; the mean shift and the log variance ratio "
        f"are its parts. Dashed: {FAR}, from where on a layer counts as far."
    )
    title = "Distance of φ from the balanced population"
    return Figure("distance", title, text, limit.encode(y=alt.datum(FAR)) + chart, rows)


def lean(found: Diagnosis) -> Figure:
    """The newest group's share of φ, by depth."""
    newest, even = found.groups[-1].name, class_shares(found.groups)[-1]
    rows: Rows = [
        {
            "depth": depth,
            "layer": layer.name,
            "measure": "newest",
            "value": None if layer.shares is None else layer.shares[newest],
        }
        for depth, layer in enumerate(found.layers, start=1)
    ]
    share = alt.Scale(domain=[0, 1])
    chart = _by_depth(rows, "measure", ("newest",), "share of the newest group", share)
    dashed = alt.Chart(alt.InlineData(values=[{}])).mark_rule(strokeDash=[3, 3])
    text = (
        f"1 would be a φ that followed {newest} alone. Dashed: {even:.2f}, the share in a balanced "
        "population. Layers where it cannot be told have no point."
    )
    title = f"Share of the newest group ({newest}) in φ"
    return Figure("lean", title, text, dashed.encode(y=alt.datum(even)) + chart, rows)


def accuracies(found: Diagnosis) -> Figure:
    """What the same weights reach with other statistics."""
    rows: Rows = [
        {"statistics": f"φ {one.statistics}", "part": part, "accuracy": value}
        for one in found.counterfactuals
        for part, value in zip(PARTS, (one.old, one.newest, one.all), strict=True)
    ]
    count = len(found.counterfactuals)
    chart = (
        alt.Chart(alt.InlineData(values=rows), width=WIDE, height=max(120, 26 * count))
        .mark_point(filled=True, size=90)
        .encode(
            x=alt.X("accuracy:Q", title="accuracy, %", scale=alt.Scale(domain=[0, 100])),
            y=alt.Y("statistics:N", title=None, sort=None, axis=alt.Axis(grid=True)),
            color=alt.Color("part:N", title=None, scale=_scale(PARTS, COLOURS)),
            shape=alt.Shape("part:N", title=None, scale=_scale(PARTS, SHAPES)),
            tooltip=[
                _tip("statistics:N", "statistics"),
                _tip("part:N", "on"),
                _tip("accuracy:Q", "accuracy, %", ".2f"),
            ],
        )
    )
    text = "The same weights with φ as it is, of balanced data, and of one group only."
    return Figure("accuracy", "Accuracy with other statistics", text, chart, rows)


def answers(found: Diagnosis) -> Figure:
    """Which group's classes the samples of each group are taken for, before and after."""
    names = [group.name for group in found.groups]
    pair = (found.as_is, found.balanced)
    strange = any(row[-1] for one in pair for row in one.answers or ())
    columns = [*names, "no group's"] if strange else names
    rows = [row for one in pair for row in _answer_rows(names, columns, one)]
    base = alt.Chart(width=CELL * max(5, len(columns)), height=CELL * len(names)).encode(
        x=alt.X("answered:N", title="answered", sort=columns, axis=alt.Axis(labelLimit=90)),
        y=alt.Y("group:N", title="group", sort=names, axis=alt.Axis(labelLimit=90)),
        tooltip=[
            _tip("statistics:N", "statistics"),
            _tip("group:N", "samples of"),
            _tip("answered:N", "taken for"),
            _tip("share:Q", "of them, %", ".2f"),
        ],
    )
    colour = alt.Color(
        "share:Q", title="samples, %", scale=alt.Scale(scheme="viridis", domain=[0, 100])
    )
    ink = alt.condition("datum.share > 55", alt.value("black"), alt.value("white"))
    cell = base.mark_rect().encode(color=colour)
    number = base.mark_text(fontSize=10).encode(text=alt.Text("share:Q", format=".0f"), color=ink)
    facet = alt.Facet("statistics:N", title=None, sort=[f"φ {one.statistics}" for one in pair])
    chart = alt.layer(cell, number, data=alt.InlineData(values=rows)).facet(facet=facet, columns=2)
    text = "Samples of each group (down), by the group of the class that is answered (across)."
    return Figure("answers", "Answers by group, before and after", text, chart, rows)


def _answer_rows(
    names: Sequence[str], columns: Sequence[str], one: Counterfactual
) -> Iterator[dict[str, Any]]:
    for name, counts in zip(names, one.answers or (), strict=True):
        for answered, count in zip(columns, counts, strict=False):
            yield {
                "statistics": f"φ {one.statistics}",
                "group": name,
                "answered": answered,
                "share": 100 * count / sum(counts),
            }


def _by_depth(
    rows: Rows, by: str, names: Sequence[str], title: str, scale: alt.Scale | None = None
) -> Any:
    base = alt.Chart(alt.InlineData(values=rows), width=WIDE, height=260).encode(
        x=alt.X(
            "depth:O",
            title="BatchNorm layer, in the order of the pass",
            axis=alt.Axis(labelAngle=0, labelOverlap=True),
        ),
        y=alt.Y("value:Q", title=title, scale=scale or alt.Undefined),
        color=alt.Color(f"{by}:N", title=None, scale=_scale(names, COLOURS), legend=_legend(names)),
    )
    point = base.mark_point(filled=True, size=55).encode(
        shape=alt.Shape(f"{by}:N", title=None, scale=_scale(names, SHAPES), legend=_legend(names)),
        tooltip=[
            _tip("layer:N", "layer"),
            _tip("depth:O", "depth"),
            _tip(f"{by}:N", "measure"),
            _tip("value:Q", "value", ".3f"),
        ],
    )
    return base.mark_line(strokeWidth=1.5) + point


def _legend(names: Sequence[str]) -> Any:
    return alt.Undefined if len(names) > 1 else None


def _scale(names: Sequence[str], values: Sequence[str]) -> alt.Scale:
    return alt.Scale(domain=list(names), range=list(values[: len(names)]))


def _tip(field: str, title: str, form: str | None = None) -> alt.Tooltip:
    return alt.Tooltip(field, title=title, format=alt.Undefined if form is None else form)
