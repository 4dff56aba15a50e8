"""The page of a report: its overview, with a mark for each claim, verdicts, results, figures, and
the command that makes each run again."""

from collections.abc import Iterator, Sequence
from html import escape

from bntricks.errors import counted
from bntricks.files import shown
from bntricks.report.build import Report
from bntricks.report.commands import caveat, run_command
from bntricks.report.groups import RunGroup, stream_title
from bntricks.report.page.html import (
    Section,
    details,
    figure_html,
    form_html,
    page_html,
    table_html,
)
from bntricks.report.tables.table import knob_text, only
from bntricks.report.verdicts import Judgement, Verdict
from bntricks.runs.record import Record

MODEL = "model.safetensors"
"""What a run is saved as, if it is."""
IN_THE_FIGURE = ("Compared", "Metric")
"""Columns of verdicts that the figure of claims shows as well."""
MARKS: dict[Verdict, str] = {
    "holds": "✓",
    "suggested": "(✓)",
    "undecided": "?",
    "no difference": "=",
    "doubtful": "(✗)",
    "does not hold": "✗",
    "not judged": "·",
    "not run": "–",
}


def report_html(report: Report, opening: Sequence[Section] = ()) -> str:
    """Render the page of a report, with these sections before its own."""
    first = () if opening else (Section("overview", "Overview", overview_html(report)),)
    sections = [*first, *opening, *_sections(report)]
    summary = report.summary if opening else ""
    return page_html(report.title, summary, sections, report.command)


def overview_html(report: Report) -> str:
    """Render the question, the scale, which claims hold, and what is missing."""
    overview = report.overview
    rows = [
        ("Asked", f"<p>{escape(report.summary)}</p>"),
        ("Scale", f"<p>{escape(overview.scale)}</p>"),
    ]
    if report.verdicts:
        marks = "".join(_mark(n, judged) for n, judged in enumerate(report.verdicts, start=1))
        rows.append(("Claims", f'<p>{escape(overview.claims)}</p><ol class="marks">{marks}</ol>'))
    if overview.missing:
        lines = "".join(f"<li>{escape(line)}</li>" for line in overview.missing)
        rows.append(("Missing", f"<ul>{lines}</ul>"))
    parts = "".join(f"<div><dt>{name}</dt><dd>{content}</dd></div>" for name, content in rows)
    return f'<dl class="overview">{parts}</dl>'


def _mark(number: int, judged: Judgement) -> str:
    words = escape(f"{number}. {judged.claim.text}: {judged.verdict}")
    kind = judged.verdict.replace(" ", "-")
    return (
        f'<li class="{kind}"><a href="#verdicts" title="{words}" aria-label="{words}">'
        f"{MARKS[judged.verdict]}</a></li>"
    )


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


def _toggles(groups: Sequence[RunGroup]) -> str:
    if len(groups) < 2:
        return ""
    boxes = "".join(
        f'<label><input type="checkbox" checked value="{label}"> {label}</label>'
        for label in (escape(group.label) for group in groups)
    )
    return f"<fieldset><legend>Methods shown in the figures</legend>{boxes}</fieldset>"


def _runs(group: RunGroup) -> str:
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
    return f'<p class="quiet">{escape(text)}</p><pre>{escape(run_command(record.config))}</pre>'
