"""Maps of the features of a report's runs: one network under two sets of statistics (Figure 1 b/c),
and old and new classes around a task (Figure 4). A point's fill is its label and its edge the
prediction; shapes distinguish labels without colour, hovering shows the image, and the background
shows prediction regions. t-SNE has no units and no directions, so panels may be scaled, shifted,
turned and mirrored to match."""

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
from PIL import Image, ImageColor

from bntricks.errors import UserError, extra
from bntricks.report.figures.figure import SHAPES, Figure, Row, faded, legend_pick
from bntricks.report.groups import RunGroup, cut_down_label, stream_title
from bntricks.report.tables.table import distinct
from bntricks.runs.record import Record, maps
from bntricks.runs.record.maps import BiasedPhi, Map, Panel

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
HOW = (
    "Fill and shape: label; edge: prediction; background: rough prediction regions, by the nearest "
    "points. The directions of t-SNE mean nothing."
)


def feature_maps(groups: Sequence[RunGroup]) -> Iterator[Figure]:
    """Draw every map in the folders of these runs, of the first seed that has it."""
    for group in groups:
        for record in group.records:
            if (features := _map(record, "statistics")) and features.biased_phi:
                yield _statistics(group, record, features, features.biased_phi)
                break
    for er in groups:
        for bnt in groups:
            if (er.method, bnt.method) == ("er", "er-bnt") and er.comparable(bnt):
                yield from _overlaps(er, bnt)


def _statistics(group: RunGroup, record: Record, features: Map, measured: BiasedPhi) -> Figure:
    # A map left by another training would contradict the record's numbers.
    recorded = np.array(record.accuracy[-1], dtype=np.float64)
    mapped = np.array(measured.accuracy)
    if recorded.shape != mapped.shape or not np.allclose(mapped, recorded, atol=maps.ROUNDING):
        raise UserError(
            f"the map and the record in {record.path} are of different trainings: delete both, "
            "and the study makes them again"
        )
    accs = {"balanced": measured.acc, "biased": measured.biased_acc}
    panels = {f"{p.name} φ: ACC {accs[p.name]:.1f}%": p for p in features.panels}
    text = (
        "t-SNE of the features of test images under two sets of statistics of one network: its own "
        "φ, and φ after 100 more batches of the last task. The share of predictions that fall on "
        f"the last task's classes goes from {measured.share:.1f}% to {measured.biased_share:.1f}%. "
    )
    title = f"Balanced and biased statistics, {_source(group, group.label, record)}"
    chart, points = _chart(features, panels)
    return Figure(f"map-statistics-{group.stream}", title, text + HOW, chart, points)


def _overlaps(er: RunGroup, bnt: RunGroup) -> Iterator[Figure]:
    """Draw the figure of the first seed for which both runs have their maps, if any."""
    pairs = [(a, b) for a in er.records for b in bnt.records if a.seed == b.seed]
    for record, other in pairs:
        plain, tricks = _map(record, "overlap"), _map(other, "overlap")
        if plain is None or tricks is None:
            continue
        by_title = {
            f"before task {plain.task} (ER)": plain.panel("before"),
            "after it with ER": plain.panel("after"),
            "after it with ER-BNT": tricks.panel("after"),
        }
        panels = {title: panel for title, panel in by_title.items() if panel}
        # Before the first task there is no network to look at.
        if len(panels) < (3 if plain.task > 1 else 2):
            continue
        if (plain.labels, plain.images) != (tricks.labels, tricks.images):
            raise UserError(
                f"the maps in {record.path} and {other.path} show different images: delete both, "
                "and the study makes them again"
            )
        text = (
            f"t-SNE of the features of test images of the first {plain.task} tasks, before the "
            "last of them was learned, by the run with ER, and after, by those with ER and ER-BNT. "
        )
        both = f"{er.label} and {bnt.label}"
        title = f"Old and new classes around task {plain.task}, {_source(er, both, record)}"
        chart, points = _chart(plain, panels)
        yield Figure(f"map-overlap-{er.stream}", title, text + HOW, chart, points)
        return


def _source(group: RunGroup, label: str, record: Record) -> str:
    """Say which run a map is of."""
    run = f"{stream_title(record.stream)}, {label}, seed {record.seed}"
    return f"{run} {cut_down_label([group])}".rstrip()


def _map(record: Record, probe: str) -> Map | None:
    return None if record.path is None else maps.load(maps.path_in(record.path, probe))


def _chart(features: Map, panels: Mapping[str, Panel]) -> tuple[Any, list[Row]]:
    """Draw these panels by title, turned towards the first, and return the rows of their points."""
    names = distinct(features.class_names)
    points, backgrounds = [], []
    first: np.ndarray | None = None
    for title, panel in panels.items():
        places = placed(panel.x, panel.y, first)
        first = places if first is None else first
        backgrounds.append({"panel": title, "background": regions(places, panel.predicted)})
        images = zip(features.labels, panel.predicted, places.round(2).tolist(), strict=True)
        for number, (label, predicted, (x, y)) in enumerate(images):
            said = {"label": names[label], "predicted": names[predicted]}
            points.append({"panel": title, "number": number, **said, "x": x, "y": y})
    present = sorted({*features.labels, *(k for each in panels.values() for k in each.predicted)})
    colour, shape = (
        alt.Scale(domain=[names[k] for k in present], range=[of[k % len(of)] for k in present])
        for of in (COLOURS, SHAPES)
    )
    # Each picture is in the data once, however many panels show it.
    pictures = [{"number": number, "image": image} for number, image in enumerate(features.images)]
    looked_up = alt.LookupData(data=alt.InlineData(values=pictures), key="number", fields=["image"])
    side = min(WIDEST, WIDTH // len(panels))
    middle = alt.value(side / 2)
    background = (
        alt.Chart()
        .transform_filter("isValid(datum.background)")
        .mark_image(width=side, height=side, aspect=False)
        .encode(url="background:N", x=middle, y=middle)
    )
    data = alt.InlineData(values=[*backgrounds, *points])
    chart = (
        alt.layer(background, _marks(colour, shape), data=data)
        .properties(width=side, height=side)
        .facet(facet=alt.Facet("panel:N", title=None, sort=list(panels)), columns=len(panels))
        .transform_lookup(lookup="number", from_=looked_up)
    )
    return chart, points


def _marks(colour: alt.Scale, shape: alt.Scale) -> Any:
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
            opacity=faded(1.0, 0.08),
            tooltip=["label:N", "predicted:N", "image:N"],
            description="said:N",
        )
        .add_params(legend_pick("label"))
    )


def placed(x: Sequence[float], y: Sequence[float], like: np.ndarray | None = None) -> np.ndarray:
    """Fit points [N, 2] into the square; or turn and mirror them to be near other places of the
    same images (orthogonal Procrustes)."""
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


def regions(points: np.ndarray, predicted: Sequence[int]) -> str:
    """Draw rough prediction regions by the nearest points, as a PNG in a data URI."""
    with extra():
        from sklearn.neighbors import KNeighborsClassifier

    count = max(1, min(NEIGHBOURS, len(points) // 10))
    nearest = KNeighborsClassifier(count).fit(points, predicted)
    centres = (np.arange(GRID) + 0.5) * SIDE / GRID
    across, down = np.meshgrid(centres, centres[::-1])  # the first row of an image is its highest
    places = np.stack([across.ravel(), down.ravel()], axis=1)
    away = nearest.kneighbors(places, 1)[0]  # [GRID², 1]
    inks = np.array([ImageColor.getrgb(colour)[:3] for colour in COLOURS])
    labels = nearest.predict(places) % len(COLOURS)
    shade = FAINT * np.clip(2 - away / NEAR, 0, 1)
    pixels = np.concatenate([inks[labels], shade], axis=1).astype(np.uint8).reshape(GRID, GRID, 4)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
