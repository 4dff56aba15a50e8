"""How a map of features is drawn: the fill of a point is its label and its edge the prediction,
shapes tell labels apart again, hovering shows the image, and behind are prediction regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from bntricks.report.charts import SHAPES
from bntricks.report.regions import SIDE, placed, regions
from bntricks.runs.maps import Map, Panel

COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9"),
    *("#CC79A7", "#F0E442", "#888888", "#AA4499", "#9C6B30"),
)
"""Okabe and Ito's, and three that differ from them in lightness; the classes of a task, which come
one after the other, are far apart."""
WIDTH, WIDEST = 780, 330
"""Of all panels together, and of one."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A panel under the title it has in a figure."""

    title: str
    panel: Panel


def map_chart(found: Map, shown: Sequence[Shown]) -> tuple[Any, list[dict[str, Any]]]:
    """The chart of these panels, turned towards the first, and the rows of its points."""
    names = _names(found)
    colours = [COLOURS[label % len(COLOURS)] for label in range(len(names))]
    points, backgrounds = [], []
    first: np.ndarray | None = None
    for one in shown:
        places = placed(one.panel.x, one.panel.y, first)
        first = places if first is None else first
        background = regions(places, one.panel.predicted, colours)
        backgrounds.append({"panel": one.title, "background": background})
        points += _points(one, places, found, names)
    present = sorted({*found.labels, *(label for one in shown for label in one.panel.predicted)})
    colour, shape = (
        alt.Scale(domain=[names[k] for k in present], range=[of[k % len(of)] for k in present])
        for of in (COLOURS, SHAPES)
    )
    # Each picture is in the data once, however many panels show it.
    pictures = [{"number": number, "image": image} for number, image in enumerate(found.images)]
    looked_up = alt.LookupData(data=_values(pictures), key="number", fields=["image"])
    order = [one.title for one in shown]
    side = min(WIDEST, WIDTH // len(shown))
    chart = (
        alt.layer(_background(side), _marks(colour, shape), data=_values([*backgrounds, *points]))
        .properties(width=side, height=side)
        .facet(facet=alt.Facet("panel:N", title=None, sort=order), columns=len(order))
        .transform_lookup(lookup="number", from_=looked_up)
    )
    return chart, points


def _background(side: int) -> Any:
    middle = alt.value(side / 2)
    image = alt.Chart().transform_filter("isValid(datum.background)")
    return image.mark_image(width=side, height=side, aspect=False).encode(
        url="background:N", x=middle, y=middle
    )


def _marks(colour: alt.Scale, shape: alt.Scale) -> Any:
    pick = alt.selection_point(fields=["label"], bind="legend", name="pick", toggle="true")
    square = alt.Scale(domain=[0, SIDE])
    return (
        alt.Chart()
        .transform_filter("isValid(datum.label)")
        # Else a screen reader would read the picture out, letter by letter.
        .transform_calculate(said="datum.label + ', taken for ' + datum.predicted")
        .mark_point(size=42, strokeWidth=1.4)
        .encode(
            x=alt.X("x:Q", axis=None, scale=square),
            y=alt.Y("y:Q", axis=None, scale=square),
            fill=alt.Fill("label:N", title=None, scale=colour),
            stroke=alt.Stroke("predicted:N", title=None, scale=colour),
            shape=alt.Shape("label:N", title=None, scale=shape),
            opacity=alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.08)),
            tooltip=["label:N", "predicted:N", "image:N"],
            description="said:N",
        )
        .add_params(pick)
    )


def _values(rows: list[dict[str, Any]]) -> alt.InlineData:
    return alt.InlineData(values=rows)


def _points(
    one: Shown, places: np.ndarray, found: Map, names: Sequence[str]
) -> list[dict[str, Any]]:
    told = zip(found.labels, one.panel.predicted, places.round(2).tolist(), strict=True)
    return [
        {
            "panel": one.title,
            "number": number,
            "label": names[label],
            "predicted": names[predicted],
            "x": x,
            "y": y,
        }
        for number, (label, predicted, (x, y)) in enumerate(told)
    ]


def _names(found: Map) -> list[str]:
    """A name for each label, and no name twice."""
    own = found.class_names
    return [n if own.count(n) == 1 else f"{n} ({label})" for label, n in enumerate(own)]
