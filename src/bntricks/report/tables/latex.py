"""Tables for LaTeX: ASCII source that needs no package but booktabs, and that fits the text block
of a one-column article, or a column of a two-column one if it is narrow. Widths are estimated,
generously, from the characters of Computer Modern."""

import math
import re
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bntricks.report.tables.table import WIDE, Cell, Table, fitted, one_line

COLUMN, TEXT = 230.0, 340.0
"""Points: a column of two, and the text block of LaTeX's own article class, which is narrow."""
SIZES = {"small": 4.75, "footnotesize": 4.4, "scriptsize": 4.05}
"""Fonts from large to small, with the width of a digit in points."""
SMALLEST = "scriptsize"
"""Of these, and what paragraphs are set in."""
GAP = 6.0
"""Between columns, in points."""
LEAST_PARAGRAPH = 90.0
LINES = 36
"""Of a part, beside its title and notes: more would be higher than a page."""
LONGEST_WORD = 15
"""Letters after which a word in a paragraph may be broken."""

SYMBOLS = re.compile(r"\bB_(t_mix|t|M|p|b)\b|\|M\|")
"""The paper's batches and the size of its memory."""
ACCENTS = {
    "\u0300": "\\`",
    "\u0301": "\\'",
    "\u0302": "\\^",
    "\u0303": "\\~",
    "\u0308": '\\"',
    "\u0327": "\\c",
    "\u030c": "\\v",
}
LETTERS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{letter: f"{{{letter}}}" for letter in "[]*`'"},
    "±": r"$\pm$",
    "≈": r"$\approx$",
    "−": r"$-$",
    "×": r"$\times$",
    "∪": r"$\cup$",
    "·": r"$\cdot$",
    "λ": r"$\lambda$",
    "φ": r"$\phi$",
    "θ": r"$\theta$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "…": r"\ldots{}",
    "’": "'",
    "ß": r"\ss{}",
}


def to_latex(table: Table) -> str:
    """Write the table in as many floats as it takes to fit."""
    parts = [part for wide in fitted(table, TEXT, _width) for part in _by_height(wide)]
    floats = []
    for index, part in enumerate(parts, start=1):
        title = f"{part.title} ({index} of {len(parts)})" if len(parts) > 1 else part.title
        floats.append(_float(replace(part, title=title)))
    return "% needs \\usepackage{booktabs}\n" + "\n".join(floats)


def latex(text: str) -> str:
    """Escape text for LaTeX; brackets and stars are wrapped, or they could become options."""
    parts, end = [], 0
    for symbol in SYMBOLS.finditer(text):
        parts += [_plain(text[end : symbol.start()]), _symbol(symbol)]
        end = symbol.end()
    joined = "".join([*parts, _plain(text[end:])])
    return re.sub("-(?=-)", "-{}", joined)  # two would make a dash


def _plain(text: str) -> str:
    return "".join(LETTERS.get(letter) or _ascii(letter) for letter in one_line(text))


def _symbol(found: re.Match[str]) -> str:
    match found[1]:
        case None:
            return r"$|\mathcal{M}|$"
        case "M":
            return r"$\mathcal{B}_{\mathcal{M}}$"
        case "t_mix":
            return r"$\mathcal{B}_{t\_mix}$"
        case index:
            return rf"$\mathcal{{B}}_{index}$"


def _ascii(letter: str) -> str:
    """Write a letter with an accent as LaTeX does, and any other by its number."""
    if letter.isascii():
        return letter
    plain = unicodedata.normalize("NFD", letter)
    if len(plain) == 2 and plain[0].isascii() and plain[1] in ACCENTS:
        return f"{ACCENTS[plain[1]]}{{{plain[0]}}}"
    return f"{{[}}U+{ord(letter):04X}{{]}}"


def _by_height(table: Table) -> Iterator[Table]:
    """Split into parts that are no higher than a page."""
    first, lines = 0, 0
    room = COLUMN if _width(table) <= COLUMN else TEXT
    aligned = list(_alignments(table, room, SMALLEST))
    widths = {i: float(each[2:-3]) for i, each in enumerate(aligned) if each[0] == "p"}
    for index in range(len(table.rows)):
        own = _lines(table.rows[index], widths)
        if index > first and lines + own > LINES:
            yield _rows(table, first, index)
            first, lines = index, 0
        lines += own
    yield _rows(table, first, len(table.rows))


def _rows(table: Table, first: int, end: int) -> Table:
    rules = frozenset(rule - first for rule in table.rules if first < rule < end)
    notes = table.notes if end == len(table.rows) else ()
    return replace(table, rows=table.rows[first:end], rules=rules, notes=notes)


def _lines(row: Sequence[Cell], widths: Mapping[int, float]) -> int:
    """Count the lines of a row from the widths of its paragraphs, assuming that a sixth of each
    line stays empty."""
    lengths = {index: 1.2 * SIZES[SMALLEST] * len(row[index].text) for index in widths}
    return max((math.ceil(lengths[index] / widths[index]) for index in widths), default=1)


def _float(table: Table) -> str:
    starred, room = ("", COLUMN) if _width(table) <= COLUMN else ("*", TEXT)
    paragraphs = any(_paragraph(table, index) for index in range(len(table.columns)))
    fonts = [] if paragraphs else [size for size in SIZES if _width(table, size) <= room]
    size = next(iter(fonts), SMALLEST)
    spans = [rf"\multicolumn{{{n}}}{{c}}{{{latex(h)}}}" for h, n in table.spans()]
    rows = [" & ".join(map(latex, table.columns))]
    rows += [" & ".join(_cell(table, i, c) for i, c in enumerate(row)) for row in table.rows]
    head, *body = (rf"{row} \\" for row in rows)
    lines = [
        rf"\begin{{table{starred}}}",
        rf"\centering\{size}\setlength{{\tabcolsep}}{{{GAP / 2:g}pt}}",
        rf"\caption{{{latex(table.title)}}}",
        rf"\begin{{tabular}}{{@{{}}{''.join(_alignments(table, room, size))}@{{}}}}",
        r"\toprule",
        *([" & ".join(spans) + r" \\", *_rules_below(table)] if spans else []),
        head,
        r"\midrule",
        *(
            line
            for index, row in enumerate(body)
            for line in ([r"\midrule"] if index in table.rules else []) + [row]
        ),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {latex(note)}" for note in table.notes),
        rf"\end{{table{starred}}}",
    ]
    return "\n".join(lines) + "\n"


def _rules_below(table: Table) -> Iterator[str]:
    first = 1
    for head, count in table.spans():
        if head:
            yield rf"\cmidrule(lr){{{first}-{first + count - 1}}}"
        first += count


def _cell(table: Table, index: int, cell: Cell) -> str:
    if cell.number is not None:
        # Not latex(): in mathematics a hyphen is a minus. Braces take the space around ±.
        text = cell.text.replace(" ± ", r"{\pm}").replace(",", "{,}").replace("%", r"\%")
        return rf"$\mathbf{{{text}}}$" if cell.bold else f"${text}$"
    paragraph = _paragraph(table, index)
    text = _breakable(cell.text) if paragraph else latex(cell.text)
    text = rf"\textbf{{{text}}}" if cell.bold and cell.text else text
    return rf"{{\raggedright {text}\par}}" if paragraph else text


def _breakable(text: str) -> str:
    """Allow line breaks anywhere in words that are too long for a line."""
    words = (textwrap.wrap(word, LONGEST_WORD, break_on_hyphens=False) for word in text.split())
    return " ".join(r"\hspace{0pt}".join(map(latex, parts)) for parts in words)


def _alignments(table: Table, room: float, size: str) -> Iterator[str]:
    paragraphs = [index for index in range(len(table.columns)) if _paragraph(table, index)]
    rest = room - sum(
        _column_width(table, index, size) + GAP
        for index in range(len(table.columns))
        if index not in paragraphs
    )
    for index in range(len(table.columns)):
        if index in paragraphs:
            points = max(LEAST_PARAGRAPH, rest / len(paragraphs) - GAP)
            yield f"p{{{points:.0f}pt}}"
        else:
            yield "r" if table.numeric(index) else "l"


def _paragraph(table: Table, index: int) -> bool:
    return any(len(cell.text) > WIDE for cell in table.column(index))


def _width(table: Table, size: str = SMALLEST) -> float:
    return sum(
        (LEAST_PARAGRAPH if _paragraph(table, i) else _column_width(table, i, size)) + GAP
        for i in range(len(table.columns))
    )


def _column_width(table: Table, index: int, size: str) -> float:
    texts = [table.columns[index], *(cell.text for cell in table.column(index))]
    return max(map(len, texts)) * SIZES[size]
