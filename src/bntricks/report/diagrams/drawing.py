"""A drawing as a value: boxes with text, words and arrows at known places, and about how
wide their text gets."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

INK = "currentColor"
BLACK = "#111111"
LEADING = 1.3
WIDTHS = {0.34: "iljI.,:;'|/· ", 0.42: "tfr!()[]-", 0.84: "w+=<>#~^", 1.0: "mMW@%→∪←‖…"}
"""Of letters, in parts of the type size, in DejaVu Sans, the widest of the common fonts."""


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
