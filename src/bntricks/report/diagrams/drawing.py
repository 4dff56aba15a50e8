"""A drawing as a value: boxes with text, words and arrows at known places, about how wide their
text gets, and how it becomes SVG. Text is data, so no name can become markup; lines and letters
take the colour of the page they stand in, unless the drawing is put on a white card of its own."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from typing import Literal

INK = "currentColor"
BLACK = "#111111"
LEADING = 1.3
WIDTHS = {0.34: "iljI.,:;'|/· ", 0.42: "tfr!()[]-", 0.84: "w+=<>#~^", 1.0: "mMW@%→∪←‖…"}
"""Of letters, in parts of the type size, in DejaVu Sans, the widest of the common fonts."""
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
ROUND, HEAD, BAR = 4, 6, 7
"""Corners of boxes; the length of an arrow's head; the width of the bar that ends a blocked one."""
ENLARGED = 1.2
"""In a page, where text is larger than in a figure of a paper."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with lines of text in its middle. Copies of it may show behind, up and right;
    they lie within its width and height."""

    x: float
    y: float
    width: float
    height: float
    text: tuple[str, ...] = ()
    fill: str = "none"
    shade: float = 1.0
    stroke: str = "none"
    ink: str = INK
    size: float = 11
    bold: bool = False
    dashed: bool = False
    faint: bool = False
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text on a baseline."""

    x: float
    y: float
    text: str
    size: float = 11
    bold: bool = False
    quiet: bool = False
    anchor: Literal["start", "middle", "end"] = "start"
    subscripts: bool = False
    """What follows an underscore is a subscript, as it is in boxes."""


@dataclass(frozen=True, slots=True)
class Line:
    """From a point, by a vector; it may end in an arrow's head, or in a bar that says stop."""

    x: float
    y: float
    dx: float
    dy: float
    colour: str = INK
    end: Literal["", "arrow", "stop"] = ""
    dashed: bool = False
    width: float = 1.8


Shape = Box | Words | Line


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes on a sheet, and what they show in words."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    text: str

    def at(self, x: float, y: float) -> Iterator[Shape]:
        """Its shapes, moved."""
        return (replace(shape, x=shape.x + x, y=shape.y + y) for shape in self.shapes)


def text_width(text: str, size: float = 11, *, bold: bool = False) -> float:
    """About how wide text gets; too wide rather than too narrow."""
    return size * (1.08 if bold else 1.0) * sum(map(_letter_width, text.replace("_", "")))


def clipped(text: str, letters: int = 40) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def wrapped(text: str, width: float, size: float = 11) -> list[str]:
    """Lines no wider than this; a word that is wider is broken."""
    lines: list[str] = []
    for part in (piece for word in text.split() for piece in _pieces(word, width, size)):
        if lines and text_width(f"{lines[-1]} {part}", size) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return lines


def _pieces(word: str, width: float, size: float) -> Iterator[str]:
    piece = ""
    for letter in word:
        if piece and text_width(piece + letter, size) > width:
            yield piece
            piece = ""
        piece += letter
    yield piece


def _letter_width(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    own = next((width for width, letters in WIDTHS.items() if letter in letters), None)
    return own or (0.79 if letter.isupper() else 0.64)


def fixed(name: str) -> str:
    """A picture that never changes, as SVG: `dilemma` on a white card or, as `dilemma-1` to
    `dilemma-3`, in panels that take the colours of a page; `norms` on a card."""
    return files(__package__).joinpath(f"{name}.svg").read_text(encoding="utf-8")


def svg(drawing: Drawing, *, card: bool) -> str:
    """The drawing as SVG: on a white card, for a file, or in the colours of a page."""
    width, height = math.ceil(drawing.width), math.ceil(drawing.height)
    scale = 1.0 if card else ENLARGED
    colour = f' color="{BLACK}"' if card else ""
    sheet = f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n' if card else ""
    body = "\n".join(map(_shape, drawing.shapes))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{_number(scale * width)}" height="{_number(scale * height)}" role="img" '
        f'aria-label="{_plain(drawing.text)}" font-family="{FONT}"{colour}>\n'
        f"{sheet}{body}\n</svg>\n"
    )


def _shape(shape: Shape) -> str:
    match shape:
        case Box():
            return "".join(_box(shape))
        case Words():
            return _text(shape)
        case Line():
            return _line(shape)


def _box(box: Box) -> Iterator[str]:
    step = 3 * box.behind
    width = 0.5 if box.faint else 1.0
    paint = _paint(box.fill, box.shade, box.stroke, width=width, dashed=box.dashed)
    for back in range(box.behind, -1, -1):
        yield (
            f'<rect x="{_number(box.x + 3 * back)}" y="{_number(box.y + step - 3 * back)}" '
            f'width="{_number(box.width - step)}" height="{_number(box.height - step)}" '
            f'rx="{ROUND}" {paint}/>'
        )
    middle, centre = box.x + (box.width - step) / 2, box.y + step + (box.height - step) / 2
    for index, line in enumerate(box.text):
        # A third of the size below the middle is where a line of capitals looks centred.
        y = centre + (index - (len(box.text) - 1) / 2) * LEADING * box.size + box.size / 3
        words = Words(middle, y, line, box.size, box.bold, anchor="middle", subscripts=True)
        yield _text(words, box.ink)


def _text(words: Words, ink: str = INK) -> str:
    content = (
        "".join(_with_subscripts(words.text, words.size))
        if words.subscripts
        else _plain(words.text)
    )
    weight = ' font-weight="bold"' if words.bold else ""
    shade = ' fill-opacity="0.75"' if words.quiet else ""
    return (
        f'<text x="{_number(words.x)}" y="{_number(words.y)}" font-size="{_number(words.size)}" '
        f'text-anchor="{words.anchor}" fill="{ink}"{weight}{shade}>{content}</text>'
    )


def _with_subscripts(text: str, size: float) -> Iterator[str]:
    """What follows an underscore is lowered by dy alone: not every viewer knows other ways."""
    drop, sunk = _number(size / 4), False
    for part in re.split(r"(?<=\w)(_\w+)", text):
        if not part:
            continue
        if part.startswith("_") and len(part) > 1:
            small = _number(0.75 * size)
            yield f'<tspan dy="{drop}" font-size="{small}">{_plain(part[1:])}</tspan>'
            sunk = True
        else:
            yield f'<tspan dy="-{drop}">{_plain(part)}</tspan>' if sunk else _plain(part)
            sunk = False


def _line(line: Line) -> str:
    length = math.hypot(line.dx, line.dy) or 1.0
    ux, uy = line.dx / length, line.dy / length
    ex, ey = line.x + line.dx, line.y + line.dy
    stop = 0.8 * HEAD if line.end == "arrow" else 0.0
    paint = _paint("none", 1.0, line.colour, width=line.width, dashed=line.dashed)
    shaft = _segment(line.x, line.y, ex - stop * ux, ey - stop * uy, paint)
    if line.end == "stop":
        half = BAR / 2
        return shaft + _segment(
            ex - half * uy, ey + half * ux, ex + half * uy, ey - half * ux, paint
        )
    if line.end == "arrow":
        bx, by, half = ex - HEAD * ux, ey - HEAD * uy, HEAD / 1.7
        corners = ((ex, ey), (bx - half * uy, by + half * ux), (bx + half * uy, by - half * ux))
        points = " ".join(f"{_number(x)},{_number(y)}" for x, y in corners)
        return f'{shaft}<polygon points="{points}" fill="{line.colour}"/>'
    return shaft


def _segment(x: float, y: float, ex: float, ey: float, paint: str) -> str:
    x1, y1, x2, y2 = map(_number, (x, y, ex, ey))
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {paint}/>'


def _paint(
    fill: str, shade: float, stroke: str, *, width: float = 1.0, dashed: bool = False
) -> str:
    parts = [f'fill="{fill}"']
    if shade != 1.0:
        parts.append(f'fill-opacity="{_number(shade)}"')
    if stroke != "none":
        parts.append(f'stroke="{stroke}" stroke-width="{_number(width)}"')
    if dashed:
        parts.append('stroke-dasharray="4 3"')
    return " ".join(parts)


def _plain(text: str) -> str:
    """Nothing that XML forbids, nothing that could be markup."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text))


def _number(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")
