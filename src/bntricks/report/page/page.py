"""The page of a report: its overview, with a mark for each claim, verdicts, results, figures, and
the command that makes each run again."""

from collections.abc import Iterator, Sequence
from html import escape

from bntricks.errors import counted
from bntricks.files import shown
from bntricks.report.build import Report, StreamPart
from bntricks.report.commands import caveat, run_command
from bntricks.report.groups import RunGroup, stream_title
from bntricks.report.page.html import (
    Section,
    details,
    figure_html,
    form_html,
    packed_script,
    page_html,
    table_html,
)
from bntricks.report.tables.table import Table, knob_text, only
from bntricks.report.verdicts import Judgement, Verdict
from bntricks.runs.record import Record

MODEL = "model.safetensors"
"""What a run is saved as, if it is."""
LEADERBOARD = "leaderboard.html"
MOST_ROWS = 60
"""Of a printed table of results. A report of more has only tables with filters."""
MOST_VALUES = 40
"""Values of a column to choose from."""
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
        rows.append(("Claims", f"<p>{escape(overview.claims)}</p>{_marks(report.verdicts)}"))
    if overview.missing:
        lines = "".join(f"<li>{escape(line)}</li>" for line in overview.missing)
        rows.append(("Missing", f"<ul>{lines}</ul>"))
    parts = "".join(f"<div><dt>{name}</dt><dd>{content}</dd></div>" for name, content in rows)
    return f'<dl class="overview">{parts}</dl>'


def _marks(verdicts: Sequence[Judgement]) -> str:
    """Render the numbers of the claims by verdict, each a link to its row."""
    found: dict[Verdict, list[str]] = {verdict: [] for verdict in MARKS}
    for number, judged in enumerate(verdicts, start=1):
        words = escape(f"{number}. {judged.claim.text}: {judged.verdict}")
        link = f'<a href="#verdict-table-{number}" title="{words}" aria-label="{words}">'
        found[judged.verdict].append(f"{link}{number}</a>")
    rows = (
        f'<li class="{verdict.replace(" ", "-")}"><span>{MARKS[verdict]} {verdict}</span> '
        f"{' '.join(links)}</li>"
        for verdict, links in found.items()
        if links
    )
    return f'<ul class="marks">{"".join(rows)}</ul>'


def _sections(report: Report) -> Iterator[Section]:
    if report.verdict_table is not None:
        columns = enumerate(report.verdict_table.columns)
        rest = only(report.verdict_table, [i for i, name in columns if name not in IN_THE_FIGURE])
        table = table_html(rest, "verdict-table", picks=("Verdict",), cards=True)
        figure = "" if report.verdict_figure is None else figure_html(report.verdict_figure)
        yield Section("verdicts", report.verdict_table.title, table + figure)
    yield Section("results", "Results", _results(report))
    for index, part in enumerate(report.streams, start=1):
        packed: dict[str, str] = {}
        figures = "".join(figure_html(figure, packed) for figure in part.figures)
        if part.classes is not None:
            table = table_html(part.classes, f"classes-{index}")
            figures += details("Accuracy of each class", table)
        content = _choice(part, f"stream-{index}") + figures
        folded = details("Figures", content) if part.folded else content
        yield Section(f"stream-{index}", part.title, folded)
    if report.maps:
        yield Section("maps", "Maps", "".join(map(figure_html, report.maps)))
    if len(report.groups) <= MOST_ROWS:
        yield Section("runs", "Runs and commands", "".join(map(_runs, report.groups)))


def _results(report: Report) -> str:
    """Render the results as printed, and all numbers; of very many rows, say where they are."""
    rows = len(report.results.rows)
    board = (
        f'<p><a href="{LEADERBOARD}">The leaderboard</a> has a dot for each of the runs, compares '
        "any two rows seed by seed, and leads to each run with its configuration and command.</p>"
    )
    if rows > MOST_ROWS:
        notes = "".join(f'<p class="note">{escape(note)}</p>' for note in report.results.notes)
        return (
            f"<p>There are {rows} rows. Below, each stream has a table of its own, whose figures "
            "draw the rows that you choose; results.csv, results.md and results.tex, beside this "
            f"page, have all numbers.</p>{board}{notes}"
        )
    table = table_html(report.results, "results-table", picks=_picks(report.results))
    cost = details("Data and cost", table_html(report.cost, "cost-table"))
    form = form_html(report.form, "form-table")
    return form + board + details("All numbers of all rows", table) + cost


def _picks(results: Table) -> list[str]:
    """List the columns that say what a row is, and have several values."""
    metrics = results.columns.index("Data")
    return [
        name
        for index, name in enumerate(results.columns[:metrics])
        if not any("." in cell.text and cell.number is not None for cell in results.column(index))
        and 1 < len({cell.text for cell in results.column(index)}) <= MOST_VALUES
    ]


def _choice(part: StreamPart, name: str) -> str:
    """Render boxes for the methods in the figures of a part; for very many, a table of them."""
    if len(part.groups) < 2:
        return ""
    if part.results is None:
        labels = "".join(
            f'<label class="draw"><input type="checkbox" class="series" value="{label}"'
            f'{" checked" * each.drawn}><i style="background:{each.look.colour}"></i>'
            f"{label}</label>"
            for each in part.groups
            for label in [escape(each.label)]
        )
        chooser = f"<fieldset><legend>Methods shown in the figures</legend>{labels}</fieldset>"
    else:
        picks = _picks(part.results)
        table = table_html(part.results, f"{name}-rows", picks=picks, choosing=True)
        chooser = f'<div class="chooser">{table}</div>'
    if all(each.drawn for each in part.groups):
        return chooser
    series = [
        {"label": each.label, "title": each.title, "remarks": [*each.remarks.values()]}
        | {"size": each.remarks.get("memory"), "free": each.knobs["memory"] is None}
        | {"color": each.look.colour, "strokeDash": each.look.dash, "shape": each.look.shape}
        | {"drawn": each.drawn, "cut": each.cut_down}
        for each in part.groups
    ]
    return chooser + packed_script(f"{name}-series", series)


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
