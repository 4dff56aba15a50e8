"""Pages in one HTML file with everything in it: it opens from the disk, asks for nothing from any
network, and says so to the browser by its Content-Security-Policy, which allows its scripts by
hash. In its pieces, tables, figures and data, no name can become markup."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import vl_convert

from bntricks.report.figures.figure import VEGA_LITE, Figure, Row
from bntricks.report.tables.table import WIDE, Cell, Table, plain_cell

BATCH = re.compile(r"\bB_(t_mix|t|M|p|b)\b")
PARSED = re.compile(r"(-?\d+(?:\.(\d+))?)")
"""The number that a script reads off a cell's text, and its decimals."""
LONG_HEAD = 16
EXPORT = "window.vegaEmbed = vegaEmbed;"
MANY_COLUMNS, TOO_MANY = 9, 12
"""Of a printed table; one of more is set smaller, and numbers above their deviations."""
TALL = 15
"""Rows of a table; one of more scrolls in its frame, and says so."""
DIGITS = 2
"""Of numbers in packed data."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page, with its content as escaped HTML."""

    name: str
    title: str
    content: str
    script: str | None = None
    """What makes it live, a file beside this one."""


def page_html(
    title: str,
    summary: str,
    sections: Sequence[Section],
    made_by: str | None,
    *,
    charts: bool = True,
) -> str:
    """Render the page; without charts it is small, as it carries no charting library."""
    own = dict.fromkeys(section.script for section in sections if section.script)
    scripts = [*([_charting()] if charts else []), *map(_resource, ("page.js", *own))]
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
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>' * (len(sections) > 1),
        f'<main id="main" tabindex="-1">{body}</main><footer>{again}</footer>',
        *(f"<script>{script}</script>" for script in scripts),
        "</body></html>\n",
    ]
    return "\n".join(parts)


@cache
def _charting() -> str:
    """Load Vega-Embed with its dependencies, which takes seconds."""
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


def table_html(
    table: Table,
    name: str,
    *,
    picks: Sequence[str] = (),
    cards: bool = False,
    choosing: bool = False,
) -> str:
    """Render a table that scripts may sort and filter, and that reads well without them. `picks`
    are columns, each with a list to choose its values from. The rows of `cards` can be linked to
    and wrap, and on a phone each is a card. If `choosing`, a script sets boxes before the rows."""
    tools = _tools(table, name, picks, choosing=choosing) if picks or choosing else ""
    head = "".join(_head(table, index) for index in range(len(table.columns)))
    names = table.columns if cards else ("",) * len(table.columns)
    link = f' id="{escape(name)}-{{}}"' * cards
    body = "".join(
        f"<tr{link.format(number)}>{''.join(map(_cell, row, names))}</tr>"
        for number, row in enumerate(table.rows, start=1)
    )
    kind = "sortable cards" if cards else "sortable"
    return tools * bool(table.rows) + _framed(table, name, kind, f"<tr>{head}</tr>", body)


def form_html(table: Table, name: str) -> str:
    """Render a table as printed: heads over their columns, rules between its parts."""
    spans = "".join(
        f'<th scope="colgroup" colspan="{count}">{escape(head)}</th>'
        if head
        else f'<td colspan="{count}"></td>'
        for head, count in table.spans()
    )
    kinds = ["number" if table.numeric(i) else "" for i in range(len(table.columns))]
    heads = "".join(
        f'<th scope="col" class="{kind}">{escape(column)}</th>'
        for kind, column in zip(kinds, table.columns, strict=True)
    )
    body = "".join(
        f"<tr{' class=rule' * (index in table.rules)}>{''.join(map(_form_cell, row, kinds))}</tr>"
        for index, row in enumerate(table.rows)
    )
    columns = len(table.columns)
    kind = f"form{' dense' * (columns > MANY_COLUMNS)}{' crowded' * (columns > TOO_MANY)}"
    return _framed(table, name, kind, f"<tr>{spans}</tr>" * bool(spans) + f"<tr>{heads}</tr>", body)


def _framed(table: Table, name: str, kind: str, head: str, body: str) -> str:
    """Render a table in a scrolling frame, and its notes; without rows, the notes alone."""
    title = escape(table.title)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    if not table.rows:
        return notes
    rows = len(table.rows)
    more = f'<p class="note">{rows} rows: scroll within the frame for all of them.</p>'
    tall = " tall" * (rows > TALL)
    return (
        f'{more * bool(tall and body)}<div class="scroll{tall}" tabindex="0" '
        f'role="region" aria-label="Table: {title}"><table id="{escape(name)}" class="{kind}">'
        f"<caption>{title}</caption>"
        f"<thead>{head}</thead><tbody>{body}</tbody></table></div>{notes}"
    )


def figure_html(figure: Figure, packed: dict[str, str] | None = None) -> str:
    """Render a chart with its description and its numbers. If a reader chooses what it draws, a
    script fills in the numbers, from those of all rows; `packed` has those of earlier figures."""
    chart = {key: value for key, value in figure.spec.items() if key != "$schema"}
    rows = tuple(tuple(map(plain_cell, row.values())) for row in figure.drawn_rows)
    table = Table(figure.title, tuple(figure.rows[0]), rows)
    if figure.drawn is None:
        numbers, source, script = table_html(table, f"{figure.name}-numbers"), "", ""
    else:
        heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
        numbers = _framed(table, f"{figure.name}-numbers", "plain", f"<tr>{heads}</tr>", "")
        text, name = _packed(_by_column(figure.rows)), f"{figure.name}-rows"
        source = ({} if packed is None else packed).setdefault(text, name)
        script = _text_script(name, text) * (source == name)
    picks = any(param["name"] == "pick" for param in chart.get("params", ()))
    usage = "Hover for values" + (", click a name to pick it out." if picks else ".")
    title = "" if figure.folded else f"<h3>{_title(figure)}</h3>"
    content = (
        f"<figure><figcaption>{title}"
        f'<p>{escape(figure.text)} <span class="note">{usage}</span></p></figcaption>'
        f'<div class="chart" id="{figure.name}" data-spec="{figure.name}-spec" '
        f'data-rows="{source}"></div>{data_script(f"{figure.name}-spec", chart)}{script}'
        f"{details('Numbers of this figure', numbers)}</figure>"
    )
    folded = f"<details><summary>{_title(figure)}</summary>{content}</details>"
    return folded if figure.folded else content


def _title(figure: Figure) -> str:
    """Render the title, whose end a script replaces if a reader chooses what is drawn."""
    plain = escape(figure.title.removesuffix(figure.common))
    return f'{plain}<span id="{figure.name}-common">{escape(figure.common)}</span>'


def _by_column(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Turn rows into columns, without the ends of bands, which follow from the deviation."""
    names = [name for name in rows[0] if name not in ("low", "high")]
    return {name: [row.get(name) for row in rows] for name in names}


def details(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def data_script(name: str, value: Any) -> str:
    """Embed data for scripts, without angle brackets, so that nothing in it can end the element."""
    text = json.dumps(value, allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return f'<script type="application/json" id="{escape(name)}">{text}</script>'


def packed_script(name: str, value: Any) -> str:
    """Embed data for scripts that unpack it when it is needed, rounded and compressed."""
    return _text_script(name, _packed(value))


def _packed(value: Any) -> str:
    text = json.dumps(_rounded(value), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _text_script(name: str, text: str) -> str:
    return f'<script type="text/plain" id="{escape(name)}">{text}</script>'


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return int(value) if value == int(value) else round(value, DIGITS)
        case dict():
            return {key: _rounded(each) for key, each in value.items()}
        case list() | tuple():
            return [_rounded(each) for each in value]
    return value


def _head(table: Table, index: int) -> str:
    text = escape(table.columns[index])
    kinds = ["number"] * table.numeric(index) + ["long"] * (len(text) > LONG_HEAD)
    return f'<th scope="col" class="{" ".join(kinds)}"><button type="button">{text}</button></th>'


def _cell(cell: Cell, head: str) -> str:
    """Render a cell, with its column's name if it has a head of its own."""
    own = f' data-head="{escape(head)}"' if head else ""
    text = f"<strong>{escape(cell.text)}</strong>" if cell.bold else escape(cell.text)
    if cell.number is None:
        long = ' class="long"' if len(cell.text) > WIDE else ""
        return f"<td{long}{own}>{text}</td>"
    shown = PARSED.match(cell.text)
    digits = len(shown[2] or "") if shown else 0
    same = shown is not None and abs(float(shown[1]) - cell.number) <= 0.501 * 10**-digits
    behind = "" if same else f' data-number="{cell.number:.6g}"'
    return f'<td class="number"{own}{behind}>{text}</td>'


def _form_cell(cell: Cell, kind: str) -> str:
    text = BATCH.sub(r"B<sub>\1</sub>", escape(cell.text)).replace("± ", "±\u00a0")
    text = f"<strong>{text}</strong>" if cell.bold else text
    return f'<td class="{kind}">{text}</td>'


def _tools(table: Table, name: str, picks: Sequence[str], *, choosing: bool) -> str:
    """Render what filters rows and, if they have boxes, draws those that are left."""
    draw = '<button type="button" class="draw-shown">Draw the first dozen shown</button>' * choosing
    return (
        f'<div class="tools" data-table="{escape(name)}">'
        f'<label>Rows with <input type="search" placeholder="any text"></label>'
        f"{''.join(_pick(table, pick) for pick in picks)}{draw}"
        f'<span class="count" role="status"></span></div>'
    )


def _pick(table: Table, pick: str) -> str:
    cells = {cell.text: cell.number for cell in table.column(table.columns.index(pick))}
    values = [*cells]
    if None not in cells.values():
        values.sort(key=lambda text: cells[text] or 0)
    options = "".join(f"<option>{escape(value)}</option>" for value in values if value)
    return (
        f'<label>{escape(pick)} <select aria-label="{escape(pick)}" data-column="{escape(pick)}">'
        f'<option value="">all</option>{options}</select></label>'
    )
