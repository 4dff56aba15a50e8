"""The top of a report's page: its overview, with a mark for each claim."""

from __future__ import annotations

from html import escape

from bntricks.report.build import Report
from bntricks.report.verdicts import Judgement, Verdict

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


def overview_html(report: Report) -> str:
    """What was asked, at which scale, which claims hold, and what is missing."""
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
