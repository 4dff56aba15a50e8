"""Panels put together on one sheet, with letters, and a legend of what they use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from string import ascii_lowercase

from bntricks.recipes.language import BM, BM2, Balanced, Bmix, Bp, Bt, Method, Source
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

SHEET = 980
"""A row of panels is no wider, unless one panel is."""
SPACE = 12
ICON, KEY = 20, 26
"""The height of a legend's icon, and of its line."""
MEANINGS = {
    Bt: "current task",
    BM: "memory",
    BM2: "memory, second draw",
    Bp: "memory, earlier tasks only",
    Bmix: "current task, memory mixed in",
}


def sheet(methods: Sequence[tuple[str, Method]]) -> Drawing:
    """All panels in rows, and the legend below."""
    drawn = panels([(f"({_letter(i)}) {title}", m) for i, (title, m) in enumerate(methods)])
    shapes, width, height = _flow(drawn, SHEET, drawn[0].height + SPACE)
    below = legend([method for _, method in methods], width)
    whole = Drawing(width, height, tuple(shapes), "")
    return Drawing(
        max(width, below.width) + 2 * SPACE,
        height + below.height + 2 * SPACE,
        (*whole.at(SPACE, SPACE), *below.at(SPACE, height + SPACE)),
        ". ".join(one.text for one in drawn),
    )


def legend(methods: Iterable[Method], width: float) -> Drawing:
    """What the colours and lines of these recipes mean."""
    shown = [one for method in methods for one in passes(method)]
    used = {s for one in shown if one.source is not None for s in one.source.symbols()}
    batches = [_key(_swatch(s), meaning) for s, meaning in MEANINGS.items() if s in used]
    balanced = next((one.source for one in shown if isinstance(one.source, Balanced)), None)
    if balanced is not None:
        outline = replace(_swatch(balanced), fill="none", stroke=FRAME, ink=INK)
        batches.append(_key(outline, "both, balanced over the classes"))
    frame = Box(0, 1, 26, 18, fill=INK, shade=0.07, stroke=FRAME)
    marks = [
        _key(frame, "one forward, one set of batch moments"),
        _key(Line(5, 19, 0, -18, THETA, "arrow", width=2.2), "trains the parameters θ"),
        _key(Line(5, 1, 0, 18, PHI, "arrow", width=2.2), "moves the running statistics φ"),
    ]
    if any("leaves" in (one.theta, one.phi) for one in shown):
        marks.append(_key(Line(5, 3, 0, 14, INK, "stop", width=1.2), "leaves them alone"))
    if any(one.theta == "guides" for one in shown):
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
    for one in drawings:
        if x and x + one.width > width:
            x, y = 0.0, y + line
        shapes += one.at(x, y)
        widest = max(widest, x + one.width)
        x += one.width + SPACE
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
