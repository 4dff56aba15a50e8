"""A whole report on disk: tables, figures and the page, all from the same records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from bntricks.errors import UserError
from bntricks.paper import ScaleName, Study
from bntricks.report.figures import map_figures, save, stream_figures, verdict_figure
from bntricks.report.page import TITLE, Section, figure_html, write_page
from bntricks.report.results import results_table, verdict_table
from bntricks.report.tables import Table, to_csv, to_latex, to_markdown
from bntricks.report.verdicts import verdicts
from bntricks.runs.record import Record

FORMATS = {"md": to_markdown, "csv": to_csv, "tex": to_latex}


def write(
    records: Sequence[Record],
    folder: Path,
    study: Study | None,
    scale: ScaleName | None,
    title: str | None,
    command: str | None,
) -> Path:
    """Everything is judged before anything is written."""
    if not records:
        raise UserError("no runs to report: train some with `bnt run` or `bnt study`")
    if (study is None) != (scale is None):
        raise UserError("a study is judged at a scale: give both, or neither")
    rows = None if study is None or scale is None else verdicts(study, scale, records)
    results = results_table(records, study, scale)
    figures = list(chain.from_iterable(stream_figures(records).values()))
    if judged := verdict_figure(rows, records):
        figures.insert(0, judged)
    mapped = map_figures(records) if study is None or study.probe else []
    folder.mkdir(parents=True, exist_ok=True)
    _write_table(results, folder, "results")
    if rows:
        _write_table(verdict_table(rows, records), folder, "verdicts")
    for figure in (*figures, *mapped):
        save(figure, folder / "figures")
    heading = title or (TITLE if study is None else f"{study.title} ({scale} scale)")
    page = folder / "report.html"
    further = [Section("maps", "Maps", "".join(map(figure_html, mapped)))] if mapped else []
    how: dict[str, Any] = {"study": study, "scale": scale, "further": further}
    return write_page(page, records, rows, heading, command, **how)


def _write_table(table: Table, folder: Path, name: str) -> None:
    for ending, render in FORMATS.items():
        (folder / f"{name}.{ending}").write_text(render(table), encoding="utf-8")
