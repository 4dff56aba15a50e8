"""The leaderboard: every row of a report with a dot for each of its runs, which leads to the run.
Two rows that are picked are compared seed by seed. The page's script computes only what depends on
the reader's choice; its numbers are those of the records."""

from collections.abc import Sequence
from html import escape
from typing import Any

from scipy.special import stdtrit

from bntricks.errors import counted
from bntricks.files import shown
from bntricks.intervals import CONFIDENCE
from bntricks.report.build import Report
from bntricks.report.commands import caveat, run_command
from bntricks.report.figures.confusion import CLASSES_UP_TO, names_of, shares
from bntricks.report.groups import RunGroup, columns, option_title, option_values, stream_title
from bntricks.report.page.html import Section, packed_script, page_html
from bntricks.report.protocol import DEFAULTS, scale_name
from bntricks.report.tables.table import knob_text
from bntricks.report.verdicts import DIGITS, FEWEST_SEEDS, SEEDS_TO_CONFIRM
from bntricks.runs.metrics import SHOWN, column_title
from bntricks.runs.record import Record

ALWAYS = ("norm", "correct", "epochs")
"""Options that are columns even if they are the same everywhere."""
FURTHER = ("last_task", "average_incremental")
NOTE = (
    "Differences are A minus B over the seeds that both have, with Student's 95% interval. Above "
    f"or below: the interval leaves out 0, over at least {SEEDS_TO_CONFIRM} seeds. Suggested: over "
    f"fewer, but at least {FEWEST_SEEDS}. Each is one comparison, not adjusted for others, and "
    "rows that are picked because they look far apart look further apart than they are."
)


def leaderboard_html(report: Report, home: str) -> str:
    """Render the page of all runs of a report, with a link to the report's page."""
    runs = sum(len(each.records) for each in report.groups)
    summary = f"{counted(runs, 'run')} in {counted(len(report.groups), 'row')}."
    board = (
        f'<p><a href="{escape(home)}">The report of these runs</a></p>'
        "<noscript><p>This page needs scripts; results.csv, beside it, has the same numbers."
        "</p></noscript>"
        '<div class="leaderboard" data-board="board"><div class="tools board-tools"></div>'
        '<p class="note">Each dot is a run, and a link to it; the arrow keys go from dot to dot. '
        "Rows of other data, length or scale are other tasks: filter them, or tick two rows to see "
        "in what they differ, and by how much.</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Leaderboard">'
        '<table class="board cards"><caption>Leaderboard</caption><thead></thead><tbody></tbody>'
        '</table></div><p class="jumps"></p></div>'
    )
    pair = f'<div class="pair" aria-live="polite"></div><p class="note">{escape(NOTE)}</p>'
    run = '<div class="run"><p>Choose a dot of the leaderboard.</p></div>'
    sections = [
        Section("rows", "Rows", board, script="leaderboard.js"),
        Section("compare", "Two rows compared", pair),
        Section("one-run", "One run", run + packed_script("board", _data(report))),
    ]
    return page_html(
        f"Leaderboard, {report.title}", summary, sections, report.command, charts=False
    )


def _data(report: Report) -> dict[str, Any]:
    groups = report.groups
    metrics = list(dict.fromkeys((*SHOWN, *report.metrics, *FURTHER)))
    facets = _facets(groups)
    most = max(len(group.records) for group in groups)
    computed: dict[str, int] = {}
    classes: dict[str, int] = {}
    rows = [
        {
            "label": group.label,
            "values": [values[index] for values in facets.values()],
            "colour": group.look.colour,
            "options": _options(group),
            "data": group.knobs["data"],
            "command": run_command(group.records[0].config),
            "first": group.records[0].seed,
            "caveat": caveat(group.records[0]),
            "runs": [_run(record, metrics, computed, classes) for record in group.records],
        }
        for index, group in enumerate(groups)
    ]
    return {
        "columns": [*facets],
        "metrics": [column_title(metric) for metric in metrics],
        "t": [
            None,
            None,
            *(float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) for n in range(2, most + 1)),
        ],
        "judged": {"fewest": FEWEST_SEEDS, "confirmed": SEEDS_TO_CONFIRM, "digits": DIGITS},
        "defaults": {option_title(key): knob_text(value) for key, value in DEFAULTS.items()},
        "computed": [*computed],
        "classes": [names.split("\n") for names in classes],
        "rows": rows,
    }


def _facets(groups: Sequence[RunGroup]) -> dict[str, list[str]]:
    return {
        "Method": [group.title for group in groups],
        "Stream": [stream_title(group.stream) for group in groups],
        "Scale": [scale_name(group) for group in groups],
        **{option_title(key): option_values(key, groups) for key in ALWAYS},
        **columns(groups),
    }


def _options(group: RunGroup) -> dict[str, str]:
    """Write the options that are not at their defaults."""
    return {
        option_title(key): shown(knob_text(value))
        for key, value in group.knobs.items()
        if key in DEFAULTS and value != DEFAULTS[key]
    } | {"Training images": str(group.records[0].data.images["train"])}


def _run(
    record: Record, metrics: Sequence[str], computed: dict[str, int], classes: dict[str, int]
) -> dict[str, Any]:
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    processor = "" if record.numerics is None else f"; {record.numerics.processor}"
    own_source = "" if record.numerics is None else f"; code {record.numerics.source[:8]}"
    run: dict[str, Any] = {
        "id": record.config.identity(record.data.fingerprint),
        "seed": record.seed,
        "numbers": [record.value(metric) for metric in metrics],
        "r": [[v for v in row if v is not None] or None for row in record.accuracy],
        "by": computed.setdefault(shown(f"{versions}{processor}{own_source}"), len(computed)),
    }
    if record.path is not None:
        run["where"] = shown(str(record.path))
    if record.trained_as is not None:
        run["as"] = record.trained_as
    if record.confusion is not None:
        names = names_of(record, by_class=sum(map(len, record.data.classes)) <= CLASSES_UP_TO)
        order = list(dict.fromkeys(names.values()))
        found = shares([record], names)
        run["confusion"] = [round(10 * found.get((a, b), 0.0)) for a in order for b in order]
        run["classes"] = classes.setdefault("\n".join(order), len(classes))
    return run
