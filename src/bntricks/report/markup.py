"""Pieces of the page: text, tables and data as HTML in which no name can become markup."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

from bntricks.report.tables import WIDE, Cell, Table

BATCH = re.compile(r"\bB_(t_mix|t|M|p|b)\b")
LONG_HEAD = 16
MANY_COLUMNS, TOO_MANY = 9, 12
"""Of a printed table; one of more is set smaller, and numbers above their deviations."""


def table_html(table: Table, name: str, *, pick: str | None = None, cards: bool = False) -> str:
    """A table that scripts may sort and filter, and that reads well without them. `pick` is a
    column whose values can be chosen from a list. The rows of `cards` wrap instead of running off
    the page, and on a phone each is a card."""
    tools = "" if pick is None else _tools(table, name, pick)
    head = "".join(_head(table, index) for index in range(len(table.columns)))
    names = table.columns if cards else ("",) * len(table.columns)
    body = "".join(f"<tr>{''.join(map(_cell, row, names))}</tr>" for row in table.rows)
    kind = "sortable cards" if cards else "sortable"
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    if not table.rows:
        return notes
    return (
        f'{tools}<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f'<table id="{escape(name)}" class="{kind}"><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{notes}"
    )


def form_html(table: Table, name: str) -> str:
    """A table as it would be printed: heads over their columns, rules between its parts."""
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
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    columns = len(table.columns)
    kind = f"form{' dense' * (columns > MANY_COLUMNS)}{' crowded' * (columns > TOO_MANY)}"
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f'<table id="{escape(name)}" class="{kind}"><caption>{escape(table.title)}</caption>'
        f"<thead>{f'<tr>{spans}</tr>' * bool(spans)}<tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{notes}"
    )


def details(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def data_script(name: str, value: Any) -> str:
    """Data for scripts. Without angle brackets nothing in it can end the element."""
    text = json.dumps(value, allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return f'<script type="application/json" id="{escape(name)}">{text}</script>'


def _head(table: Table, index: int) -> str:
    text = escape(table.columns[index])
    kinds = ["number"] * table.numeric(index) + ["long"] * (len(text) > LONG_HEAD)
    return f'<th scope="col" class="{" ".join(kinds)}"><button type="button">{text}</button></th>'


def _cell(cell: Cell, head: str) -> str:
    """A cell, which says what it is if it has a head of its own."""
    own = f' data-head="{escape(head)}"' if head else ""
    text = f"<strong>{escape(cell.text)}</strong>" if cell.bold else escape(cell.text)
    if cell.number is None:
        long = ' class="long"' if len(cell.text) > WIDE else ""
        return f"<td{long}{own}>{text}</td>"
    return f'<td class="number"{own} data-number="{cell.number!r}">{text}</td>'


def _form_cell(cell: Cell, kind: str) -> str:
    text = BATCH.sub(r"B<sub>\1</sub>", escape(cell.text)).replace("± ", "±\u00a0")
    text = f"<strong>{text}</strong>" if cell.bold else text
    return f'<td class="{kind}">{text}</td>'


def _tools(table: Table, name: str, pick: str) -> str:
    index = table.columns.index(pick)
    values = dict.fromkeys(cell.text for cell in table.column(index))
    options = "".join(f"<option>{escape(value)}</option>" for value in values)
    return (
        f'<div class="tools" data-table="{escape(name)}">'
        f'<label>Rows with <input type="search" placeholder="any text"></label>'
        f'<label>{escape(pick)} <select data-column="{index}"><option value="">all</option>'
        f"{options}</select></label>"
        f'<span class="count" role="status"></span></div>'
    )
