"""A drawing as SVG: boxes, text and horizontal arrows. Names are escaped, so none becomes markup.
Lines and letters have the colour of the page, or are black on a white card."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from bntricks.report.figures.looks import DARK, PAPER

BLACK, FRAME = "#111111", "#888888"
THETA, PHI = "#009E73", "#D55E00"
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
LINE = 1.3
"""The height of a line, in type sizes."""
HEAD = 7
"""The length of an arrow's head."""
ENLARGED = 1.2
"""The scale in a page, where text is larger than in a figure of a paper."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """SVG elements in an area of this size, and a description for a screen reader."""

    width: float
    height: float
    body: str
    text: str

    def at(self, x: float, y: float) -> str:
        """Return its elements, moved."""
        return f'<g transform="translate({x:g} {y:g})">{self.body}</g>'


def grid(drawings: Sequence[Drawing], columns: int, space: float = 12) -> Drawing:
    """Arrange drawings in rows of at most `columns`, with space around."""
    width = max(drawing.width for drawing in drawings) + space
    body, y = [], space
    for start in range(0, len(drawings), columns):
        row = drawings[start : start + columns]
        body += [drawing.at(space + index * width, y) for index, drawing in enumerate(row)]
        y += max(drawing.height for drawing in row) + space
    text = ". ".join(drawing.text for drawing in drawings)
    return Drawing(width * min(columns, len(drawings)) + space, y, "\n".join(body), text)


def svg(drawing: Drawing, *, card: bool) -> str:
    """Write the drawing as SVG: on a white card, for a file, or in the colours of a page."""
    width, height = math.ceil(drawing.width), math.ceil(drawing.height)
    scale = 1.0 if card else ENLARGED
    colour = f' color="{BLACK}"' if card else ""
    sheet = f'{DARK}<rect width="{width}" height="{height}" fill="{PAPER}"/>\n' if card else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{scale * width:g}" height="{scale * height:g}" role="img" '
        f'aria-label="{plain(drawing.text)}" font-family="{FONT}"{colour}>\n'
        f"{sheet}{drawing.body}\n</svg>\n"
    )


def fixed(name: str) -> str:
    """Read a picture that never changes, as SVG: `dilemma` on a white card or, as `dilemma-1` to
    `dilemma-3`, in panels that take the colours of a page; `norms` on a card."""
    return files(__package__).joinpath(f"{name}.svg").read_text(encoding="utf-8")


def box(x: float, y: float, width: float, height: float, paint: str = 'fill="none"') -> str:
    """Draw a rectangle with round corners."""
    size = f'width="{width:g}" height="{height:g}"'
    return f'<rect x="{x:g}" y="{y:g}" {size} rx="4" {paint}/>'


def words(
    x: float, y: float, text: str, size: float = 11, style: str = "", ink: str = "currentColor"
) -> str:
    """Write a line of text from x on, or around it with `text-anchor="middle"` as its style."""
    content = "".join(_with_subscripts(text, size))
    return f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{ink}" {style}>{content}</text>'


def lines(x: float, y: float, texts: Sequence[str], size: float = 11) -> str:
    """Write lines of text around a point."""
    first = y - (len(texts) - 1) * LINE * size / 2 + size / 3  # where capitals look centred
    return "".join(
        words(x, first + index * LINE * size, text, size, 'text-anchor="middle"')
        for index, text in enumerate(texts)
    )


def arrow(x: float, y: float, dx: float, colour: str, *, dashed: bool = False) -> str:
    """Draw a horizontal arrow."""
    tip, back = x + dx, x + dx - math.copysign(HEAD, dx)
    points = f"{tip:g},{y:g} {back:g},{y - 4:g} {back:g},{y + 4:g}"
    head = f'<polygon points="{points}" fill="{colour}"/>'
    return line(x, y, back - x, colour, dashed=dashed) + head


def line(x: float, y: float, dx: float, colour: str, *, dashed: bool = False) -> str:
    """Draw a horizontal line."""
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<path d="M{x:g} {y:g}h{dx:g}" stroke="{colour}" stroke-width="2"{dash}/>'


def stop(x: float, y: float, dx: float) -> str:
    """Draw a short horizontal line that ends in a bar."""
    return f'<path d="M{x:g} {y:g}h{dx:g}m0 -4v8" stroke="currentColor" fill="none"/>'


def width_of(text: str, size: float = 11) -> float:
    """Estimate the width of a text."""
    return size * sum(0.85 if letter.isupper() else 0.6 for letter in text.replace("_", ""))


def plain(text: str) -> str:
    """Escape what could be markup, and drop what XML forbids."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text))


def _with_subscripts(text: str, size: float) -> Iterator[str]:
    """Lower what follows an underscore by dy alone: not every viewer knows other ways."""
    sunk = False
    for part in filter(None, re.split(r"(?<=\w)(_\w+)", text)):
        if part.startswith("_") and len(part) > 1:
            small = f'dy="{size / 4:g}" font-size="{0.75 * size:g}"'
            yield f"<tspan {small}>{plain(part[1:])}</tspan>"
        else:
            yield f'<tspan dy="{-size / 4:g}">{plain(part)}</tspan>' if sunk else plain(part)
        sunk = part.startswith("_") and len(part) > 1
