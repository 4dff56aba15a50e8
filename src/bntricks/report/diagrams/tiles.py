"""Batches as coloured tiles: the current task, the memory, and what is made of both."""

from __future__ import annotations

from collections.abc import Iterator

from bntricks.recipes.language import Balanced, Blended, Copies, Source, Union
from bntricks.report.diagrams.drawing import BLACK, Box, Shape, clipped, text_width
from bntricks.report.diagrams.passes import MEMORY

NOW, STORED, EARLIER, MIXED, OTHER = "#56B4E9", "#E69F00", "#CC79A7", "#9BB38A", "#BBBBBB"
FRAME = "#888888"
COLOURS = {
    "B_t": NOW,
    "B_M": STORED,
    "B_M2": STORED,
    "B_p": EARLIER,
    "B_t_mix": MIXED,
    MEMORY: STORED,
}
"""By the name of a symbol."""
TILE, UNION, BEHIND = 42, 14, 6


def tiles(source: Source, x: float, y: float) -> Iterator[Shape]:
    """A batch, from its upper left corner."""
    width = source_width(source)
    match source:
        case Blended(of):
            yield from tiles(of, x, y)
        case Union(left, right):
            first = source_width(left)
            yield from tiles(left, x, y)
            yield Box(x + first, y, UNION, TILE, ("∪",))
            yield from tiles(right, x + first + UNION, y)
        case Balanced(current, memory):
            yield Box(x, y, width, TILE, stroke=FRAME)
            yield Box(x + 2, y + 2, width - 4, TILE / 2 - 3, (str(source),), size=12)
            cut, half = x + 3 + _part_width(current), y + TILE / 2 - 1
            yield _part(current, x + 3, half)
            yield _part(memory, cut + 2, half)
        case _:
            yield tile(source, x, y, width, TILE)


def tile(source: Source, x: float, y: float, width: float, height: float) -> Box:
    """A plain one; copies show behind it."""
    copied = isinstance(source, Copies)
    return Box(
        *(x, y, width, height, (_name(source),), colour(source)),
        stroke=BLACK if copied else "none",
        ink=BLACK,
        size=12,
        behind=2 if copied else 0,
    )


def source_width(source: Source) -> float:
    match source:
        case Blended(of):
            return source_width(of)
        case Union(left, right):
            return source_width(left) + UNION + source_width(right)
        case Balanced(current, memory):
            return _part_width(current) + _part_width(memory) + 8
        case _:
            behind = BEHIND if isinstance(source, Copies) else 0
            return max(38.0, text_width(_name(source), 12) + 8 + behind)


def colour(source: Source) -> str:
    """The colour of the first batch it is made of."""
    first = next(source.symbols(), None)
    return COLOURS.get(str(first), OTHER)


def _part(source: Source, x: float, y: float) -> Box:
    """A piece of a balanced batch."""
    height = TILE / 2 - 2
    name = (_name(source),)
    return Box(x, y, _part_width(source), height, name, colour(source), ink=BLACK, size=10)


def _part_width(source: Source) -> float:
    return max(28.0, text_width(_name(source), 10) + 8)


def _name(source: Source) -> str:
    return clipped(str(source), 24)
