"""The figure of what accuracy costs: only where methods differ in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import altair as alt

from bntricks.report.charts import (
    HEIGHT,
    HIDDEN,
    WIDTH,
    Figure,
    base,
    faded,
    legend_pick,
    points,
    spread,
    tips,
    titled,
)
from bntricks.report.groups import Group

TELLING = 0.1
"""Forward passes a step by which methods must differ for a figure of them."""


def cost(groups: Sequence[Group]) -> Figure | None:
    """ACC against the passes of a step; None if a step costs all methods the same."""
    speed = ("forwards_per_step", "images_per_second")
    rows = [
        spread(group, group.values("acc")) | {name: group.mean(name) for name in speed}
        for group in groups
    ]
    passes = [row["forwards_per_step"] for row in rows if row["forwards_per_step"] is not None]
    if not passes or max(passes) - min(passes) < TELLING:
        return None
    y = partial(alt.Y, title="ACC, %", scale=alt.Scale(zero=False, padding=10))
    scale = alt.Scale(zero=False, nice=True, padding=15)
    axis = alt.Axis(labelOverlap=True, tickCount=5)
    x = alt.X("forwards_per_step:Q", title="forward passes a step", scale=scale, axis=axis)
    chart = base(groups, rows, x=x, opacity=faded())
    span = chart.mark_rule().encode(y=y("low:Q"), y2="high:Q")
    more = (
        alt.Tooltip("forwards_per_step:Q", title="forwards a step", format=".2f"),
        alt.Tooltip("images_per_second:Q", title="images/s", format=",.0f"),
    )
    point = points(chart, groups, size=90, y=y("acc:Q"), tooltip=tips(more=more))
    whole = (span + point).properties(width=WIDTH, height=HEIGHT)
    whole = whole.add_params(HIDDEN, legend_pick("label"))
    text = "ACC against forward passes in a step, tracking included; images/s are of the machine."
    name = f"cost-{groups[0].stream}"
    return Figure(name, titled("Cost and accuracy", groups), text, whole, rows)
