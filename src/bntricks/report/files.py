"""A report on disk: tables as Markdown, CSV and LaTeX, figures as SVG, PDF and PNG with the CSV
behind them, and the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import vl_convert

from bntricks.errors import UserError
from bntricks.files import write_atomically
from bntricks.report.build import Report
from bntricks.report.charts import VEGA_LITE, Figure
from bntricks.report.page import Section, report_html
from bntricks.report.tables import csv_text, to_csv, to_latex, to_markdown

TABLE_FORMATS = {"md": to_markdown, "csv": to_csv, "tex": to_latex}
PIXELS_PER_INCH = 200
STYLE: dict[str, Any] = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"},
    "axisY": {"labelLimit": 320},
    "header": {"labelFontSize": 12},
    "legend": {"orient": "bottom", "columns": 5, "labelFontSize": 11, "labelLimit": 300},
    "view": {"stroke": None},
}
"""How charts look outside the page; they have no title, as a paper has a caption."""
OFFLINE: dict[str, Any] = {"vl_version": VEGA_LITE, "config": STYLE, "allowed_base_urls": []}


def write(report: Report, folder: Path | str, opening: Sequence[Section] = ()) -> Path:
    """Write all of it into a folder; the page's path. The page begins with `opening`."""
    folder = Path(folder)
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in zip(("results", "verdicts"), report.tables, strict=False):
            for ending, render in TABLE_FORMATS.items():
                write_atomically(folder / f"{name}.{ending}", render(table).encode())
        for figure in report.figures:
            save(figure, folder / "figures")
        page = folder / "report.html"
        write_atomically(page, report_html(report, opening).encode())
    return page


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """What goes wrong on the disk is said with the folder's name."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write the report to {folder}: {error.strerror}; choose another folder",
            remedy="out",
        ) from None


def svg(figure: Figure) -> bytes:
    return vl_convert.vegalite_to_svg(json.dumps(figure.spec), **OFFLINE).encode()


def save(figure: Figure, folder: Path) -> list[Path]:
    """Write the figure's four files."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = json.dumps(figure.spec)
    rows = [row.values() for row in figure.rows]
    contents = {
        "svg": svg(figure),
        "pdf": vl_convert.vegalite_to_pdf(spec, **OFFLINE),
        "png": vl_convert.vegalite_to_png(spec, ppi=PIXELS_PER_INCH, **OFFLINE),
        "csv": csv_text(figure.rows[0], rows).encode(),
    }
    paths = {folder / f"{figure.name}.{ending}": content for ending, content in contents.items()}
    for path, content in paths.items():
        write_atomically(path, content)
    return list(paths)
