"""The base of all figures, as Altair charts: one definition for the page and for the paper. Fonts,
axes and background are the renderer's; a click selects a name."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import altair as alt

from bntricks.files import shown
from bntricks.report.figures.looks import SHAPES
from bntricks.report.groups import (
    RunGroup,
    cut_down_label,
    shared_remarks,
    stream_title,
    with_remark,
)
from bntricks.report.statistics import mean, sd
from bntricks.report.tables.table import drawable

__all__ = ["COLOURS", "SHAPES", "Figure", "Row"]

Row = dict[str, Any]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#888888")
"""For what is no method, by Okabe and Ito."""
WIDTH, HEIGHT = 640, 320
ACCURACY = alt.Scale(domain=[0, 100])
UPRIGHT = alt.Axis(labelAngle=0, labelOverlap=True)
SEEDS = {"seeds:Q": "seeds"}
"""The line of a tooltip that says over how many seeds a number is taken."""
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
"""The version that a figure's spec is written in."""
LETTER = 6.6
"""The width of a letter in points, of the font that names are drawn in."""
USUAL_NAME = 18
"""Letters of a name in a legend that is not of methods."""


@dataclass(frozen=True)
class Figure:
    """A chart, its data and a description."""

    name: str
    title: str
    text: str
    chart: Any
    rows: list[Row]
    """Of all groups, also of those that are not drawn."""
    ends: float = 0.0
    """Room, in points, for names at the ends of lines, which stand for a legend; 0 if none do."""
    beside: float = 65.0
    """What a panel needs beside its width, in points: its axis, and some air."""
    folded: bool = False
    """Whether a page shows it only on demand, because it is long."""
    drawn: frozenset[str] | None = None
    """Labels of the groups in the chart; None if it has all of them."""
    common: str = ""
    """The end of the title that is about the groups in the chart."""

    @property
    def drawn_rows(self) -> list[Row]:
        """The rows in the chart."""
        return [row for row in self.rows if self.drawn is None or row["label"] in self.drawn]

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite, cached because it takes longer than the rest of a report."""
        spec: dict[str, Any] = _drawable(self.chart.to_dict())
        spec.pop("config", None)
        # How much room names need, for whoever shows the chart in more or less of it.
        names = {
            str(row[key]) for row in self.drawn_rows for key in ("label", "shown") if key in row
        }
        room = {"ends": self.ends, "name": LETTER * max(map(len, names), default=USUAL_NAME)}
        room["beside"] = self.beside
        # Dashes would fray the symbols of a legend.
        dashed = any("strokeDash" in layer.get("encoding", ()) for layer in spec.get("layer", ()))
        legend = {"symbolStrokeWidth": 0} if dashed else {}
        # The description is what a screen reader says.
        description = shown(f"{self.title}. {self.text}")
        return {**spec, "usermeta": {**room, "legend": legend}, "description": description}


def legend_pick(field: str) -> alt.Parameter:
    """Make a selection of a field's values by clicks in the legend."""
    return alt.selection_point(fields=[field], bind="legend", name="pick", toggle="true")


def faded(shown: float = 1.0, faded: float = 0.12) -> Any:
    """Set the opacity of selected and other values."""
    picked = alt.when(alt.selection_point(name="pick"))
    return picked.then(alt.value(shown)).otherwise(alt.value(faded))


def each(lists: Iterable[Sequence[Any]]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the first values of all lists, then the second ones, and so on, counted from 1."""
    return enumerate(zip(*lists, strict=True), start=1)


def spread(group: RunGroup, values: Sequence[float | None]) -> Row:
    """Return mean, standard deviation, and the band of one deviation; empty without values."""
    known = [value for value in values if value is not None]
    centre, width = mean(known), sd(known)
    if centre is None:
        return {}
    low, high = centre - (width or 0.0), centre + (width or 0.0)
    row = {"label": group.label, "acc": centre, "sd": width, "low": low, "high": high}
    return {**row, "seeds": len(known)}


def fitting(rows: Sequence[Row]) -> tuple[float, float]:
    """Find round percentages that enclose all bands of these rows."""
    low = min(math.floor(max(0.0, row["low"]) / 10) * 10 for row in rows)
    high = max(math.ceil(min(100.0, row["high"]) / 10) * 10 for row in rows)
    return low, max(high, low + 10)


def titled(title: str, groups: Sequence[RunGroup]) -> str:
    """Title a figure of one stream."""
    return f"{title}, {stream_title(groups[0].stream)} {cut_down_label(groups)}".rstrip()


def of_stream(
    kind: str,
    title: str,
    text: str,
    groups: Sequence[RunGroup],
    chart: Any,
    rows: list[Row],
    **more: Any,
) -> Figure:
    """Add the stream to a figure's name and title."""
    shown = [each for each in groups if each.drawn]
    drawn = None if len(shown) == len(groups) else frozenset(each.label for each in shown)
    plain = f"{title}, {stream_title(groups[0].stream)}"
    common = f" {cut_down_label(shown)}".rstrip() + with_remark(
        "", ", ".join(shared_remarks(groups))
    )
    name = f"{kind}-{groups[0].stream}"
    return Figure(name, plain + common, text, chart, rows, drawn=drawn, common=common, **more)


def base(groups: Sequence[RunGroup], rows: list[Row], **channels: Any) -> Any:
    """Make the common part of a chart's layers: these rows in their methods' colours."""
    chart = alt.Chart(alt.InlineData(values=rows))
    return chart.encode(color=by_label(alt.Color, groups, "colour"), **channels)


def points(chart: Any, groups: Sequence[RunGroup], size: int, **channels: Any) -> Any:
    shape = by_label(alt.Shape, groups, "shape")
    return chart.mark_point(filled=True, size=size).encode(shape=shape, opacity=faded(), **channels)


def by_label(channel: Any, groups: Sequence[RunGroup], part: str) -> Any:
    """Make a channel that shows methods by this part of their looks."""
    values = [getattr(each.look, part) for each in groups]
    domain = [each.label for each in groups]
    scale = alt.Scale(domain=domain, range=[list(v) if part == "dash" else v for v in values])
    return channel("label:N", title=None, scale=scale)


def tooltip(titles: Mapping[str, str]) -> list[alt.Tooltip]:
    """Make a tooltip with a line for each field. The format of a number follows its field."""
    return [
        alt.Tooltip(field, title=title, format=form or alt.Undefined)
        for key, title in titles.items()
        for field, _, form in [key.partition(" ")]
    ]


def tips(where: Mapping[str, str], more: Mapping[str, str] | None = None) -> list[alt.Tooltip]:
    """Make the tooltip of a method's accuracy, which says where it was measured."""
    accuracy = {"acc:Q .2f": "accuracy, %", "sd:Q .2f": "± sd"}
    return tooltip({"label:N": "method", **where, **accuracy, **(more or {}), **SEEDS})


def _drawable(value: Any) -> Any:
    """Make all texts of a spec drawable, whatever names they contain; pictures stay."""
    match value:
        case dict():
            return {_drawable(key): _drawable(each) for key, each in value.items()}
        case list():
            return [_drawable(each) for each in value]
        case str() if not value.startswith("data:image/"):
            return drawable(value)
    return value
