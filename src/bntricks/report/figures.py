"""All figures of a report, and each of them on disk as SVG, PDF and PNG with the CSV behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from bntricks.report.charts import Figure, cost, curves, matrices, per_task, verdict_chart
from bntricks.report.groups import by_stream, group
from bntricks.report.maps import feature_maps
from bntricks.report.tables import csv_text
from bntricks.report.verdicts import Row
from bntricks.runs.record import Record

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
PIXELS_PER_INCH = 200
PRINTED: dict[str, Any] = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"},
    "axisY": {"labelLimit": 320},
    "header": {"labelFontSize": 12},
    "legend": {"orient": "bottom", "columns": 5, "labelFontSize": 11, "labelLimit": 300},
    "view": {"stroke": None},
}
"""How charts look outside the page; they have no title, as a paper's caption is its own."""


def stream_figures(records: Iterable[Record]) -> dict[str, list[Figure]]:
    """The figures of each stream, in the order they are read."""
    figures = {}
    names: set[str] = set()
    for stream, groups in by_stream(group(records)).items():
        runs = [record for one in groups for record in one.records]
        made = [build(runs) for build in (curves, per_task, matrices, cost)]
        figures[stream] = [replace(f, name=_file_name(f.name, names)) for f in made]
    return figures


def map_figures(records: Iterable[Record]) -> list[Figure]:
    """The maps of features that lie beside these runs."""
    names: set[str] = set()
    return [replace(f, name=_file_name(f.name, names)) for f in feature_maps(records)]


def verdict_figure(rows: Sequence[Row] | None, records: Iterable[Record]) -> Figure | None:
    """The figure of the claims, None if no claim was run."""
    if not any(row.ours is not None for row in rows or ()):
        return None
    return verdict_chart(rows or (), records)


def spec(figure: Figure) -> dict[str, Any]:
    """The chart as Vega-Lite, styled by whoever shows it."""
    found: dict[str, Any] = figure.chart.to_dict()
    found.pop("config", None)
    # What a screen reader says of the picture.
    return {**found, "description": f"{figure.title}. {figure.text}"}


OFFLINE: dict[str, Any] = {"vl_version": VEGA_LITE, "config": PRINTED, "allowed_base_urls": []}


def svg(figure: Figure) -> bytes:
    return vl_convert.vegalite_to_svg(json.dumps(spec(figure)), **OFFLINE).encode()


def save(figure: Figure, folder: Path) -> list[Path]:
    """Write the figure's four files."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(spec(figure))
    columns = list(figure.rows[0])
    rows = [[row[column] for column in columns] for row in figure.rows]
    contents = {
        "svg": svg(figure),
        "pdf": vl_convert.vegalite_to_pdf(text, **OFFLINE),
        "png": vl_convert.vegalite_to_png(text, ppi=PIXELS_PER_INCH, **OFFLINE),
        "csv": csv_text(columns, rows).encode(),
    }
    paths = [folder / f"{figure.name}.{kind}" for kind in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_bytes(content)
    return paths


def _file_name(name: str, taken: set[str]) -> str:
    """Safe on any disk, and never twice."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    found, number = plain, 1
    while found in taken:
        number += 1
        found = f"{plain}-{number}"
    taken.add(found)
    return found
