"""Panels put together on one sheet, with letters, and a legend of what they use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from string import ascii_lowercase
from typing import TYPE_CHECKING

from bntricks.report.diagrams.drawing import (
    BLACK,
    INK,
    Box,
    Drawing,
    Line,
    Shape,
    Words,
    text_width,
)
from bntricks.report.diagrams.panels import PHI, THETA, panels
from bntricks.report.diagrams.passes import passes
from bntricks.report.diagrams.tiles import FRAME, colour

if TYPE_CHECKING:
    from bntricks.recipes.language import Method, Source

SHEET = 980
"""A row of panels is no wider, unless one panel is."""
SPACE = 12
ICON, KEY = 20, 26
"""The height of a legend's icon, and of its line."""
MEANINGS = {
    "B_t": "current task",
    "B_M": "memory",
    "B_M2": "memory, second draw",
    "B_p": "memory, earlier tasks only",
    "B_t_mix": "current task, memory mixed in",
}


def sheet(methods: Sequence[tuple[str, Method]]) -> Drawing:
    """All panels in rows, and the legend below."""
    drawn = panels([(f"({_letter(i)}) {title}", m) for i, (title, m) in enumerate(methods)])
    shapes, width, height = _flow(drawn, SHEET, drawn[0].height + SPACE)
    below = legend([method for _, method in methods], width)
    above = Drawing(width, height, tuple(shapes), "")
    return Drawing(
        max(width, below.width) + 2 * SPACE,
        height + below.height + 2 * SPACE,
        (*above.at(SPACE, SPACE), *below.at(SPACE, height + SPACE)),
        ". ".join(drawing.text for drawing in drawn),
    )


def legend(methods: Iterable[Method], width: float) -> Drawing:
    """What the colours and lines of these recipes mean."""
    from bntricks.recipes.language import Balanced

    shown = [forward for method in methods for forward in passes(method)]
    sources = [forward.source for forward in shown if forward.source is not None]
    used = {str(symbol): symbol for source in sources for symbol in source.symbols()}
    batches = [_key(_swatch(used[s]), meaning) for s, meaning in MEANINGS.items() if s in used]
    balanced = next((source for source in sources if isinstance(source, Balanced)), None)
    if balanced is not None:
        outline = replace(_swatch(balanced), fill="none", stroke=FRAME, ink=INK)
        batches.append(_key(outline, "both, balanced over the classes"))
    frame = Box(0, 1, 26, 18, fill=INK, shade=0.07, stroke=FRAME)
    marks = [
        _key(frame, "one forward, one set of batch moments"),
        _key(Line(5, 19, 0, -18, THETA, "arrow", width=2.2), "trains the parameters θ"),
        _key(Line(5, 1, 0, 18, PHI, "arrow", width=2.2), "moves the running statistics φ"),
    ]
    if any("leaves" in (forward.theta, forward.phi) for forward in shown):
        marks.append(_key(Line(5, 3, 0, 14, INK, "stop", width=1.2), "leaves them alone"))
    if any(forward.theta == "guides" for forward in shown):
        dashed = Line(5, 19, 0, -18, THETA, "arrow", dashed=True)
        marks.append(_key(dashed, "shapes the gradient"))
    above, wide, high = _flow(batches, width, KEY)
    below, wider, higher = _flow(marks, width, KEY)
    shapes = (*above, *Drawing(wider, higher, tuple(below), "").at(0, high))
    return Drawing(max(wide, wider), high + higher - KEY + ICON, shapes, "Legend")


def _flow(
    drawings: Sequence[Drawing], width: float, line: float
) -> tuple[list[Shape], float, float]:
    """Drawings one after the other, in lines of this height; their extent."""
    shapes: list[Shape] = []
    x, y, widest = 0.0, 0.0, 0.0
    for drawing in drawings:
        if x and x + drawing.width > width:
            x, y = 0.0, y + line
        shapes += drawing.at(x, y)
        widest = max(widest, x + drawing.width)
        x += drawing.width + SPACE
    return shapes, widest, y + line


def _key(icon: Box | Line, meaning: str) -> Drawing:
    text = (icon.width if isinstance(icon, Box) else 10) + 6
    words = Words(text, 14, meaning)
    return Drawing(text + text_width(meaning), ICON, (icon, words), meaning)


def _swatch(symbol: Source) -> Box:
    name = str(symbol)
    width = max(26.0, text_width(name) + 6)
    return Box(0, 1, width, 18, (name,), colour(symbol), ink=BLACK)


def _letter(index: int) -> str:
    first, second = divmod(index, len(ascii_lowercase))
    return ("" if not first else ascii_lowercase[first - 1]) + ascii_lowercase[second]
