"""How a map of features is drawn: the fill of a point is its label and its edge the prediction,
shapes tell labels apart without colour, hovering shows the image, and behind the points are
prediction regions. t-SNE has no units and no directions, so panels may be scaled, shifted, turned
and mirrored to lie alike."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from PIL import Image, ImageColor

from bntricks.report.charts import SHAPES
from bntricks.runs.maps import Map, Panel

COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9"),
    *("#CC79A7", "#F0E442", "#888888", "#AA4499", "#9C6B30"),
)
"""Okabe and Ito's, and three that differ from them in lightness; the classes of a task, which come
one after the other, are far apart."""
WIDTH, WIDEST = 780, 330
"""Of all panels together, and of one, in pixels."""
SIDE = 100.0
MARGIN = 9.0
GRID = 240
NEIGHBOURS = 15
FAINT = 60
"""Opacity of a region, of 255."""
NEAR = 4.5
"""How far from every point a region begins to fade; at twice as far there is none."""


@dataclass(frozen=True, slots=True)
class TitledPanel:
    """A panel with the title it has in a figure."""

    title: str
    panel: Panel


def map_chart(features: Map, panels: Sequence[TitledPanel]) -> tuple[Any, list[dict[str, Any]]]:
    """The chart of these panels, turned towards the first, and the rows of its points."""
    names = _distinct_names(features.class_names)
    colours = [COLOURS[label % len(COLOURS)] for label in range(len(names))]
    points, backgrounds = [], []
    first: np.ndarray | None = None
    for titled in panels:
        places = placed(titled.panel.x, titled.panel.y, first)
        first = places if first is None else first
        background = regions(places, titled.panel.predicted, colours)
        backgrounds.append({"panel": titled.title, "background": background})
        points += _points(titled, places, features.labels, names)
    present = sorted({*features.labels, *(k for each in panels for k in each.panel.predicted)})
    colour, shape = (
        alt.Scale(domain=[names[k] for k in present], range=[of[k % len(of)] for k in present])
        for of in (COLOURS, SHAPES)
    )
    # Each picture is in the data once, however many panels show it.
    pictures = [{"number": number, "image": image} for number, image in enumerate(features.images)]
    looked_up = alt.LookupData(data=_values(pictures), key="number", fields=["image"])
    order = [titled.title for titled in panels]
    side = min(WIDEST, WIDTH // len(panels))
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
        # A screen reader would read the tooltip's picture out, letter by letter.
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
    titled: TitledPanel, places: np.ndarray, labels: Sequence[int], names: Sequence[str]
) -> list[dict[str, Any]]:
    images = zip(labels, titled.panel.predicted, places.round(2).tolist(), strict=True)
    return [
        {
            "panel": titled.title,
            "number": number,
            "label": names[label],
            "predicted": names[predicted],
            "x": x,
            "y": y,
        }
        for number, (label, predicted, (x, y)) in enumerate(images)
    ]


def _distinct_names(names: Sequence[str]) -> list[str]:
    """A name for each label; equal names get the label's number."""
    return [
        name if names.count(name) == 1 else f"{name} ({label})" for label, name in enumerate(names)
    ]


def placed(x: Sequence[float], y: Sequence[float], like: np.ndarray | None = None) -> np.ndarray:
    """Points [N, 2] in the square, as large as can be; or turned and mirrored to lie as near as can
    be to other places of the same images (orthogonal Procrustes)."""
    points = np.stack([x, y], axis=1).astype(np.float64)
    points -= points.mean(0)
    if like is None:
        angles = np.radians(np.arange(0, 90, 3))
        turns = [np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) for a in angles]
        points = min((points @ turn for turn in turns), key=lambda p: np.ptp(p, axis=0).max())
    else:
        left, _, right = np.linalg.svd(points.T @ (like - like.mean(0)))
        points = points @ left @ right
    low, high = points.min(0), points.max(0)
    extent = float((high - low).max()) or 1.0
    return np.asarray(SIDE / 2 + (points - (low + high) / 2) * (SIDE - 2 * MARGIN) / extent)


def regions(points: np.ndarray, predicted: Sequence[int], colours: Sequence[str]) -> str:
    """Rough prediction regions: each place of the square in the faint colour of the class that most
    of its nearest points are taken for. A PNG in a data URI; colours are by label."""
    from sklearn.neighbors import KNeighborsClassifier

    count = max(1, min(NEIGHBOURS, len(points) // 10))
    nearest = KNeighborsClassifier(count).fit(points, predicted)
    centres = (np.arange(GRID) + 0.5) * SIDE / GRID
    across, down = np.meshgrid(centres, centres[::-1])  # the first row of an image is its highest
    places = np.stack([across.ravel(), down.ravel()], axis=1)
    away = nearest.kneighbors(places, 1)[0]  # [GRID², 1]
    inks = np.array([ImageColor.getrgb(c)[:3] for c in colours])[nearest.predict(places)]
    shade = FAINT * np.clip(2 - away / NEAR, 0, 1)
    pixels = np.concatenate([inks, shade], axis=1).astype(np.uint8).reshape(GRID, GRID, 4)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
