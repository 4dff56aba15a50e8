"""One HTML file with everything in it: it opens from the disk, asks for nothing from any network,
and says so to the browser by its Content-Security-Policy, which allows its two scripts by hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files

import vl_convert

from bntricks.files import shown
from bntricks.report.build import Report
from bntricks.report.charts import VEGA_LITE, Figure
from bntricks.report.commands import caveat, command
from bntricks.report.groups import Group, stream_title
from bntricks.report.markup import data_script, details, form_html, table_html
from bntricks.report.opening import overview_html
from bntricks.report.overview import counted
from bntricks.report.tables import Table, knob_text, only, plain_cell
from bntricks.runs.record import Record

MODEL = "model.safetensors"
"""What a run is saved as, if it is."""
IN_THE_FIGURE = ("Compared", "Metric")
"""Columns of verdicts that the figure of claims shows as well."""
EXPORT = "window.vegaEmbed = vegaEmbed;"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page. Its content is HTML, escaped by whoever made it."""

    name: str
    title: str
    content: str


def report_html(report: Report, opening: Sequence[Section] = ()) -> str:
    """The page of a report, after these sections of somebody else's."""
    first = () if opening else (Section("overview", "Overview", overview_html(report)),)
    sections = [*first, *opening, *_sections(report)]
    summary = report.summary if opening else ""
    return page_html(report.title, summary, sections, report.command)


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
    lead = f"<p>{escape(summary)}</p>" if summary else ""
    again = f"<p>This page again:</p><pre>{escape(made_by)}</pre>" if made_by else ""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_resource('page.css')}</style></head><body>",
        '<a class="skip" href="#main">To the content</a>',
        f"<header><h1>{escape(title)}</h1>{lead}</header>",
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


def _sections(report: Report) -> Iterator[Section]:
    if report.verdict_table is not None:
        columns = enumerate(report.verdict_table.columns)
        rest = only(report.verdict_table, [i for i, name in columns if name not in IN_THE_FIGURE])
        table = table_html(rest, "verdict-table", pick="Verdict", cards=True)
        figure = "" if report.verdict_figure is None else figure_html(report.verdict_figure)
        yield Section("verdicts", report.verdict_table.title, table + figure)
    rows = table_html(report.results, "results-table", pick="Method")
    cost = details("Data and cost", table_html(report.cost, "cost-table"))
    results = form_html(report.form, "form-table") + details("All numbers of all rows", rows)
    yield Section("results", "Results", results + cost)
    for index, part in enumerate(report.streams, start=1):
        figures = "".join(map(figure_html, part.figures))
        if part.classes is not None:
            table = table_html(part.classes, f"classes-{index}")
            figures += details("Accuracy of each class", table)
        content = _toggles(part.groups) + figures
        folded = details("Figures", content) if part.folded else content
        yield Section(f"stream-{index}", part.title, folded)
    if report.maps:
        yield Section("maps", "Maps", "".join(map(figure_html, report.maps)))
    yield Section("runs", "Runs and commands", "".join(map(_runs, report.groups)))


def _toggles(groups: Sequence[Group]) -> str:
    if len(groups) < 2:
        return ""
    boxes = "".join(
        f'<label><input type="checkbox" checked value="{label}"> {label}</label>'
        for label in (escape(group.label) for group in groups)
    )
    return f"<fieldset><legend>Methods shown in the figures</legend>{boxes}</fieldset>"


def figure_html(figure: Figure) -> str:
    """A chart for the page, with its words and its numbers."""
    chart = {key: value for key, value in figure.spec.items() if key != "$schema"}
    rows = tuple(tuple(map(plain_cell, row.values())) for row in figure.rows)
    table = Table(figure.title, tuple(figure.rows[0]), rows)
    numbers = table_html(table, f"{figure.name}-numbers")
    picks = any(param["name"] == "pick" for param in chart.get("params", ()))
    usage = "Hover for values" + (", click a name to pick it out." if picks else ".")
    title = "" if figure.folded else f"<h3>{escape(figure.title)}</h3>"
    content = (
        f"<figure><figcaption>{title}"
        f'<p>{escape(figure.text)} <span class="note">{usage}</span></p></figcaption>'
        f'<div class="chart" id="{figure.name}" data-spec="{figure.name}-spec"></div>'
        f"{data_script(f'{figure.name}-spec', chart)}"
        f"{details('Numbers of this figure', numbers)}</figure>"
    )
    return details(figure.title, content) if figure.folded else content


def _runs(group: Group) -> str:
    knobs = {**group.knobs, **group.records[0].versions}
    pairs = "".join(
        f"<div><dt>{escape(key.replace('_', ' '))}</dt><dd>{escape(knob_text(value))}</dd></div>"
        for key, value in knobs.items()
    )
    count = counted(len(group.records), "run")
    runs = "".join(map(_run, group.records))
    title = f"{group.label} on {stream_title(group.stream)}: {count}"
    return details(title, f"<dl>{pairs}</dl>{runs}")


def _run(record: Record) -> str:
    where = "" if record.path is None else f", {shown(record.path)}"
    model = f", its network in {MODEL}" if record.path and (record.path / MODEL).is_file() else ""
    text = f"Seed {record.seed}: ACC {record.acc:.2f}{where}{model}. {caveat(record)}".rstrip()
    return f'<p class="quiet">{escape(text)}</p><pre>{escape(command(record))}</pre>'
