"""A recipe as a picture (Figure 2): in the middle the forwards of a step, each a frame around its
batch; above them θ, below them φ. An arrow up trains, an arrow down moves the running statistics,
and a blocked one leaves them alone. Arrows never cross, whatever the recipe. A sheet has several
panels, with letters, and a legend of what they use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from string import ascii_lowercase
from typing import TYPE_CHECKING

from bntricks.report.diagrams.drawing import (
    BLACK,
    INK,
    LEADING,
    Box,
    Drawing,
    Line,
    Shape,
    Words,
    clipped,
    text_width,
    wrapped,
)
from bntricks.report.diagrams.passes import Pass, in_words, notes, passes
from bntricks.report.diagrams.tiles import FRAME, STORED, TILE, colour, source_width, tiles

if TYPE_CHECKING:
    from bntricks.recipes.language import Method, Source

THETA, PHI = "#009E73", "#D55E00"
EDGE, GAP, PAD = 12, 12, 8
TITLE, BAND, RISE, FALL, NAME, NOTE = 30, 24, 14, 24, 15, 15
INSIDE = NAME + TILE + PAD
"""The height of a frame."""
LEAST_WIDTH, NOTES_WIDTH, CHIP = 126, 178, 22
"""The least width of what is drawn; how far notes may widen it; the width of the memory's chip."""
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


@dataclass(frozen=True, slots=True)
class Column:
    """A pass with its losses in lines, and the room it takes."""

    forward: Pass
    losses: tuple[str, ...]
    width: float


@dataclass(frozen=True, slots=True)
class Heights:
    """Where the rows of a panel begin; the same for panels side by side."""

    losses: float
    frames: float
    phi: float
    end: float

    @classmethod
    def of(cls, loss_lines: int, note_lines: int) -> Heights:
        losses = TITLE + BAND + RISE
        frames = losses + _lines_height(loss_lines) + RISE
        phi = frames + INSIDE + FALL
        end = phi + BAND + EDGE + (note_lines * NOTE + 4 if note_lines else 0)
        return cls(losses, frames, phi, end)


def panels(methods: Sequence[tuple[str, Method]]) -> list[Drawing]:
    """A panel for each title and recipe, all of one height."""
    columns = [[_column(forward) for forward in passes(method)] for _, method in methods]
    widths = [_width(title, m, c) for (title, m), c in zip(methods, columns, strict=True)]
    heights = Heights.of(
        max((len(column.losses) for own in columns for column in own), default=0),
        max(len(_notes(m, w)) for (_, m), w in zip(methods, widths, strict=True)),
    )
    return [
        _panel(title, method, own, width, heights)
        for (title, method), own, width in zip(methods, columns, widths, strict=True)
    ]


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


def _panel(
    title: str, method: Method, columns: Sequence[Column], width: float, at: Heights
) -> Drawing:
    inner = width - 2 * EDGE
    shapes: list[Shape] = [
        Box(0.5, 0.5, width - 1, at.end - 1, stroke=FRAME, faint=True),
        Words(EDGE, 20, clipped(title), 13, bold=True),
        _band(_theta(method), THETA, TITLE, inner),
        _band(_phi(method), PHI, at.phi, inner),
    ]
    start = EDGE + (inner - _columns_width(columns)) / 2
    lefts = [start + sum(c.width + GAP for c in columns[:i]) for i in range(len(columns))]
    for left, column in zip(lefts, columns, strict=True):
        shapes += _pass(column, left, at)
    middle = (at.losses + at.frames - RISE) / 2
    placed = zip(lefts, columns, strict=True)
    for (left, column), (right, following) in pairwise(placed):
        if 0 < column.forward.update == following.forward.update:
            # Halfway between the two losses, not between the frames.
            end = left + (column.width + _label_width(column.losses)) / 2
            start = right + (following.width - _label_width(following.losses)) / 2
            shapes.append(Words((end + start) / 2, middle + 4, "+", anchor="middle"))
    for index, (chip, text) in enumerate(_notes(method, width)):
        y = at.phi + BAND + 8 + index * NOTE
        if chip:
            shapes.append(Box(EDGE, y + 1, 16, 13, ("M",), STORED, ink=BLACK, size=9))
        shapes.append(Words(EDGE + (CHIP if method.memory else 0), y + 11, text, 10, quiet=True))
    return Drawing(width, at.end, tuple(shapes), in_words(title, method))


def _pass(column: Column, x: float, at: Heights) -> Iterator[Shape]:
    """One pass: its frame and batch, its losses on the way up, its arrow down."""
    forward, width, middle = column.forward, column.width, x + column.width / 2
    yield Box(x, at.frames, width, INSIDE, fill=INK, shade=0.07, stroke=FRAME)
    if forward.source is None:
        lines = tuple(wrapped(forward.name, width - PAD, 9))
        yield Box(x + 2, at.frames + 2, width - 4, INSIDE - 4, lines, size=9)
    else:
        yield Box(x + 2, at.frames + 1, width - 4, NAME, (forward.name,), size=9)
        yield from tiles(
            forward.source, middle - source_width(forward.source) / 2, at.frames + NAME + 2
        )
    yield from _upwards(column, middle, at)
    foot = at.frames + INSIDE
    if forward.phi == "moves":
        yield Line(middle, foot, 0, FALL, PHI, "arrow", width=2.2)
    elif forward.phi == "leaves":
        yield Line(middle, foot, 0, 10, INK, "stop", width=1.2)


def _upwards(column: Column, middle: float, at: Heights) -> Iterator[Shape]:
    """From the frame to θ, by way of the losses."""
    height = _lines_height(len(column.losses))
    top = (at.losses + at.frames - RISE - height) / 2
    width = _label_width(column.losses)
    label = (middle - width / 2, top, width, height, column.losses)
    if column.forward.theta == "leaves":
        yield Box(*label)
        yield Line(middle, at.frames, 0, -10, INK, "stop", width=1.2)
        return
    dashed = column.forward.theta == "guides"
    yield Box(*label, stroke=THETA, dashed=dashed)
    yield Line(middle, at.frames, 0, top + height - at.frames, THETA, dashed=dashed)
    yield Line(middle, top, 0, TITLE + BAND - top, THETA, "arrow", dashed=dashed, width=2.2)


def _column(forward: Pass) -> Column:
    """Each loss is one line; what guides the gradient is put in words, broken into lines."""
    if forward.theta == "moves":
        first, *more = (clipped(text, 30) for text in forward.losses)
        losses = (first, *(f"+ {text}" for text in more))
    else:
        losses = tuple(line for text in forward.losses for line in wrapped(clipped(text, 80), 80))
    inside = source_width(forward.source) if forward.source is not None else 56.0
    name = text_width(forward.name, 9) if forward.source is not None else 0.0
    return Column(forward, losses, max(inside + 2 * PAD, name + PAD, _label_width(losses)))


def _width(title: str, method: Method, columns: Sequence[Column]) -> float:
    bands = max(
        text_width(text, 12, bold=True) + 2 * PAD for text in (_theta(method), _phi(method))
    )
    heading = text_width(clipped(title), 13, bold=True)
    # Long notes are broken into lines rather than making the panel much wider.
    notes_width = min(
        NOTES_WIDTH, max((text_width(text, 10) + CHIP for text in _texts(method)), default=0.0)
    )
    return max(_columns_width(columns), bands, heading, notes_width, LEAST_WIDTH) + 2 * EDGE


def _label_width(losses: Sequence[str]) -> float:
    return max(map(text_width, losses), default=0.0) + 2 * PAD


def _columns_width(columns: Sequence[Column]) -> float:
    return sum(column.width + GAP for column in columns) - GAP


def _lines_height(lines: int) -> float:
    return lines * LEADING * 11 + 8


def _band(text: str, colour: str, y: float, width: float) -> Box:
    box = Box(EDGE, y, width, BAND, (text,), colour, 0.25, colour)
    return replace(box, size=12, bold=True)


def _theta(method: Method) -> str:
    return "θ" if len(method.updates) == 1 else f"θ, {len(method.updates)} steps"


def _phi(method: Method) -> str:
    return "φ ← every forward" if method.ema is None else f"φ ← {clipped(str(method.ema), 24)} only"


def _notes(method: Method, width: float) -> list[tuple[bool, str]]:
    """Lines below φ; the memory's first has a chip before it."""
    room = width - 2 * EDGE - CHIP
    lines = [line for text in _texts(method) for line in wrapped(text, room, 10)]
    return [(method.memory is not None and index == 0, line) for index, line in enumerate(lines)]


def _texts(method: Method) -> list[str]:
    stored = [] if method.memory is None else [f"memory: {method.memory}"]
    return [clipped(text, 70) for text in (*stored, *notes(method))]
