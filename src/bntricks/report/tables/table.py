"""A table as a value, and its forms in Markdown, CSV, JSON and on a terminal; `latex.py` has LaTeX.
Text in a cell is data: no name of a method, a class or a path becomes markup or a formula."""

import csv
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from bntricks.files import shown

if TYPE_CHECKING:
    from rich.console import Group

WIDE = 40
"""Text columns with longer cells than this are set as paragraphs."""
LONGEST = 300
"""Characters that a chart is given to draw; it would take minutes over a name of 10,000."""
FORMULAS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""What a spreadsheet, in some locales, takes for the start of a formula."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, and the number behind it for sorting and CSV."""

    text: str = ""
    number: float | None = None
    sd: float | None = None
    bold: bool = False
    interval: tuple[float, float] | None = None
    """The numbers behind a text that shows an interval."""


SKIPPED = Cell("–")
"""Where there could be a number, and none was measured."""


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    """What stands above each column, once over neighbours that share it; empty above none."""
    rules: frozenset[int] = frozenset()
    """Rows with a rule above them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names prefixed by their heading."""
        heads = self.heads or ("",) * len(self.columns)
        return tuple(f"{h} {c}".strip() for h, c in zip(heads, self.columns, strict=True))

    def spans(self) -> Iterator[tuple[str, int]]:
        """Each heading with the number of its columns."""
        for head, own in groupby(self.heads):
            yield head, len(list(own))

    def column(self, index: int) -> list[Cell]:
        return [row[index] for row in self.rows]

    def numeric(self, index: int) -> bool:
        """Whether a column holds numbers only."""
        cells = [cell for cell in self.column(index) if cell.text and cell != SKIPPED]
        return bool(cells) and all(cell.number is not None for cell in cells)


def table_of(title: str, rows: Sequence[dict[str, Cell]], notes: Sequence[str] = ()) -> Table:
    """Make a table from rows of cells by column, without empty columns."""
    kept = [name for name in (rows[0] if rows else ()) if any(row[name].text for row in rows)]
    cells = tuple(tuple(row[name] for name in kept) for row in rows)
    return Table(title, tuple(kept), cells, tuple(notes))


def only(table: Table, kept: Sequence[int]) -> Table:
    """Select columns of a table."""
    return replace(
        table,
        columns=tuple(table.columns[index] for index in kept),
        rows=tuple(tuple(row[index] for index in kept) for row in table.rows),
        heads=tuple(table.heads[index] for index in kept) if table.heads else (),
    )


def fitted(table: Table, room: float, width: Callable[[Table], float]) -> list[Table]:
    """Split a table into parts of at most this width, between headings; columns without one are in
    all parts. A single heading is never split."""
    if not table.heads or width(table) <= room:
        return [table]
    everywhere = [index for index, head in enumerate(table.heads) if not head]
    parts: list[list[int]] = []
    for head, own in groupby(range(len(table.heads)), key=lambda index: table.heads[index]):
        if head:
            columns = list(own)
            if parts and width(only(table, everywhere + parts[-1] + columns)) <= room:
                parts[-1] += columns
            else:
                parts.append(columns)
    return [
        replace(only(table, everywhere + part), notes=table.notes if part is parts[-1] else ())
        for part in parts
    ]


def number(value: float | None, digits: int = 2, *, sd: float | None = None) -> Cell:
    """Make a cell of a number, with ± its standard deviation if given; empty without a number."""
    if value is None:
        return Cell()
    spread = "" if sd is None else f" ± {sd:.{digits}f}"
    return Cell(f"{value:.{digits}f}{spread}", value, sd)


def interval(low: float | None, high: float | None, digits: int = 2) -> Cell:
    """Make a cell of an interval; empty without one."""
    if low is None or high is None:
        return Cell()
    return Cell(f"{low:.{digits}f} to {high:.{digits}f}", interval=(low, high))


def plain_cell(value: object, form: str = ".2f") -> Cell:
    """Make a cell of any value; the format is for numbers that are not whole."""
    if isinstance(value, float):
        return Cell(format(value, form), value)
    return number(value, 0) if isinstance(value, int) else Cell("" if value is None else str(value))


def knob_text(value: object) -> str:
    """Write the value of an option in words."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items()) or "none"
    return "none" if value is None else str(value)


def distinct(names: Sequence[str]) -> list[str]:
    """Name classes by label; equal names get the label's number."""
    return [k if names.count(k) == 1 else f"{k} ({label})" for label, k in enumerate(names)]


def drawable(text: str) -> str:
    """Clean text for charts: the library aborts the process over control characters, and fails to
    cut names with characters beyond 16 bits."""
    if len(text) > LONGEST:  # two names stay two
        digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
        text = f"{text[:LONGEST]}… ({digest[:8]})"
    return "".join(c if c <= "\uffff" else ascii(c)[1:-1] for c in shown(text))


def to_markdown(table: Table) -> str:
    align = ["---:" if table.numeric(i) else "---" for i in range(len(table.columns))]
    head = [_markdown(column) for column in table.names]
    body = [[_markdown(cell.text, bold=cell.bold) for cell in row] for row in table.rows]
    lines = [f"| {' | '.join(line)} |" for line in (head, align, *body)]
    notes = [f"\n{_markdown(note)}" for note in table.notes]
    return "\n".join([f"**{_markdown(table.title)}**\n", *lines, *notes]) + "\n"


def to_csv(table: Table) -> str:
    """Write CSV at full precision, with columns for deviations, and for `low` and `high`."""
    rows = to_json(table)["rows"]
    names: list[str] = []
    for index, column in enumerate(table.names):
        cells = table.column(index)
        spread = [f"{column} sd"] if any(cell.sd is not None for cell in cells) else []
        ends = ["low", "high"] if any(cell.interval for cell in cells) else []
        names += ends or [column, *spread]
    return csv_text(names, [map(row.get, names) for row in rows])


def to_json(table: Table) -> dict[str, Any]:
    """Convert for programs: a row is an object by column, with numbers as numbers."""
    rows = []
    for row in table.rows:
        values: dict[str, Any] = {}
        for column, cell in zip(table.names, row, strict=True):
            text = None if cell == SKIPPED else cell.text or None
            values[column] = text if cell.number is None else cell.number
            if cell.sd is not None:
                values[f"{column} sd"] = cell.sd
            if cell.interval is not None:
                values |= zip(("low", "high"), cell.interval, strict=True)
        rows.append(values)
    return {"title": table.title, "rows": rows, "notes": list(table.notes)}


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Write CSV that neither a spreadsheet nor a terminal executes: a quote precedes what looks
    like a formula, and what does not print is escaped."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([map(_no_formula, row) for row in (columns, *rows)])
    return out.getvalue()


def to_rich(table: Table) -> "Group":
    """Convert for the terminal; notes have the terminal's width, not the table's."""
    from rich import box
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    title = Text(table.title, style="bold")
    notes = [Text(note, style="dim") for note in table.notes]
    if not table.rows:
        return Group(title, *notes, "")
    grid = RichTable(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for index, column in enumerate(table.columns):
        justify = "right" if table.numeric(index) else "left"
        text = f"{table.heads[index]}\n{column}" if table.heads else column
        grid.add_column(Text(text), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for index, row in enumerate(table.rows, start=1):
        cells = (Text(cell.text, style="bold" if cell.bold else "") for cell in row)
        grid.add_row(*cells, end_section=index in table.rules)
    return Group(grid, *notes)


def terminal_width(table: Table) -> int:
    """Count the characters that `to_rich` needs for a line."""
    heads = table.heads or ("",) * len(table.columns)
    widths = (
        max(len(text) for text in (head, column, *(cell.text for cell in table.column(index))))
        for index, (head, column) in enumerate(zip(heads, table.columns, strict=True))
    )
    return sum(width + 2 for width in widths)


def _markdown(text: str, *, bold: bool = False) -> str:
    plain = re.sub(r"([\\`*_{}\[\]<>|#~$])", r"\\\1", one_line(text).replace("&", "&amp;"))
    return f"**{plain}**" if bold and plain else plain


def _no_formula(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = shown(value)
    if not text.startswith(FORMULAS):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def one_line(text: str) -> str:
    """Replace what does not print by spaces."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
