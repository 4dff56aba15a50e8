"""One HTML file with everything in it: it opens from the disk, asks for nothing from any network,
and says so to the browser by its Content-Security-Policy, which allows its two scripts by hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

import vl_convert

from bntricks.paper import ScaleName, Study
from bntricks.report.charts import Figure
from bntricks.report.commands import caveat, command
from bntricks.report.figures import VEGA_LITE, spec, stream_figures, verdict_figure
from bntricks.report.groups import Group, by_stream, group, stream_title
from bntricks.report.markup import data_script, details, plain_table, table_html
from bntricks.report.results import results_table, verdict_table
from bntricks.report.tables import Cell, Table, number
from bntricks.report.verdicts import Row
from bntricks.runs.record import Record

TITLE = "BN Tricks: report"
EXPORT = "window.vegaEmbed = vegaEmbed;"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page. Its content is HTML, escaped by whoever made it."""

    name: str
    title: str
    content: str


def write_page(
    path: Path,
    records: Iterable[Record],
    verdicts: Sequence[Row] | None = None,
    title: str = TITLE,
    command: str | None = None,
    *,
    study: Study | None = None,
    scale: ScaleName | None = None,
    further: Sequence[Section] = (),
) -> Path:
    """Write the page; `further` sections come before the configurations."""
    runs = list(records)
    groups = group(runs)
    sections = [
        *_verdict_sections(verdicts, runs),
        Section(
            "results",
            "Results",
            table_html(results_table(runs, study, scale), "results-table", pick="Method"),
        ),
        *_stream_sections(runs, groups),
        *further,
        Section("runs", "Runs and commands", _runs(groups)),
    ]
    path.write_text(page_html(title, _summary(groups), sections, command), encoding="utf-8")
    return path


def page_html(
    title: str,
    summary: str,
    sections: Sequence[Section],
    made_by: str | None,
    *,
    charts: bool = True,
) -> str:
    """The page's text. Without charts it carries no charting library, and is small."""
    scripts = [*([_charting()] if charts else []), _resource("page.js")]
    links = "".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in sections)
    body = "".join(
        f'<section id="{s.name}" aria-labelledby="{s.name}-title">'
        f'<h2 id="{s.name}-title">{escape(s.title)}</h2>{s.content}</section>'
        for s in sections
    )
    again = f"<p>This page again:</p><pre>{escape(made_by)}</pre>" if made_by else ""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_resource('page.css')}</style></head><body>",
        '<a class="skip" href="#main">To the content</a>',
        f"<header><h1>{escape(title)}</h1><p>{escape(summary)}</p></header>",
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
        f'<main id="main" tabindex="-1">{body}</main><footer>{again}</footer>',
        *(f"<script>{script}</script>" for script in scripts),
        "</body></html>\n",
    ]
    return "\n".join(parts)


@cache
def _charting() -> str:
    """Vega-Embed with all it needs, which takes seconds to put together."""
    return vl_convert.javascript_bundle(EXPORT, VEGA_LITE).replace("</script", "<\\/script")


def _policy(scripts: Sequence[str]) -> str:
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _summary(groups: Sequence[Group]) -> str:
    runs = sum(len(one.records) for one in groups)
    streams = ", ".join(map(stream_title, by_stream(groups)))
    cut = " Some numbers are of cut-down data." if any(one.cut_down for one in groups) else ""
    return f"{_count(runs, 'run')} in {_count(len(groups), 'row')}, on {streams}.{cut}"


def _verdict_sections(rows: Sequence[Row] | None, runs: Sequence[Record]) -> list[Section]:
    if not rows:
        return []
    table = table_html(verdict_table(rows, runs), "verdict-table", pick="Verdict")
    figure = verdict_figure(rows, runs)
    return [Section("verdicts", "Verdicts", table + (figure_html(figure) if figure else ""))]


def _stream_sections(runs: Sequence[Record], groups: Sequence[Group]) -> list[Section]:
    streams = by_stream(groups)
    return [
        Section(
            f"stream-{index}",
            stream_title(stream),
            _toggles(streams[stream]) + "".join(map(figure_html, figures)),
        )
        for index, (stream, figures) in enumerate(stream_figures(runs).items(), start=1)
    ]


def _toggles(groups: Sequence[Group]) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" checked value="{escape(one.label)}"> '
        f"{escape(one.label)}</label>"
        for one in groups
    )
    return f"<fieldset><legend>Methods shown in the figures</legend>{boxes}</fieldset>"


def figure_html(figure: Figure) -> str:
    """A chart for the page, with its words and its numbers."""
    chart = spec(figure)
    chart.pop("$schema", None)
    columns = tuple(figure.rows[0])
    rows = tuple(tuple(_value(row[column]) for column in columns) for row in figure.rows)
    numbers = plain_table(Table(figure.title, columns, rows), f"{figure.name}-numbers")
    picks = any(param["name"] == "pick" for param in chart.get("params", ()))
    how = "Hover for values" + (", click a name in the legend to pick it out." if picks else ".")
    return (
        f"<figure><figcaption><h3>{escape(figure.title)}</h3>"
        f"<p>{escape(figure.text)} {how}</p></figcaption>"
        f'<div class="chart" id="{figure.name}" data-spec="{figure.name}-spec"></div>'
        f"{data_script(f'{figure.name}-spec', chart)}"
        f"{details('Numbers of this figure', numbers)}</figure>"
    )


def _value(value: object) -> Cell:
    if isinstance(value, float):
        return number(value)
    return number(value, 0) if isinstance(value, int) else Cell("" if value is None else str(value))


def _runs(groups: Sequence[Group]) -> str:
    return "".join(
        details(
            f"{one.label} on {stream_title(one.stream)}: {_count(len(one.records), 'run')}",
            _configuration(one) + "".join(map(_run, one.records)),
        )
        for one in groups
    )


def _configuration(one: Group) -> str:
    knobs = {**one.knobs, **one.records[0]["versions"]}
    pairs = "".join(
        f"<div><dt>{escape(key.replace('_', ' '))}</dt><dd>{escape(_knob(value))}</dd></div>"
        for key, value in knobs.items()
    )
    return f"<dl>{pairs}</dl>"


def _knob(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items()) or "none"
    return "none" if value is None else str(value)


def _run(record: Record) -> str:
    where = f", {record['path']}" if "path" in record else ""
    head = f"Seed {record['seed']}: ACC {record['acc']:.2f}{where}"
    remark = f" {caveat(record)}" if caveat(record) else ""
    return (
        f'<p class="quiet">{escape(head)}.{escape(remark)}</p><pre>{escape(command(record))}</pre>'
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
