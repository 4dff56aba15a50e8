"""Which values share their statistics, for every normalisation: a batch as a grid with a row for
each image and a column for each channel. In colour is what one value, the framed one, is normalised
with; φ stands beside the grid where it takes part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bntricks.report.diagrams.drawing import BLACK, INK, Box, Drawing, Shape, Words
from bntricks.report.diagrams.panels import PHI
from bntricks.report.diagrams.tiles import FRAME, NOW, STORED

STREAM, REPLAYED, CHANNELS = 4, 4, 6
ROWS = STREAM + REPLAYED
ROW, CHANNEL = 0, 2
"""The value that is looked at."""
CELL, SPACE, EDGE, LABELS = 14, 12, 12, 34
WIDTH, HEIGHT, ACROSS = 176, 188, 5

Cells = Mapping[tuple[int, int], float]
"""How strongly each value takes part, by row and channel."""

_COLUMN = {(row, CHANNEL): 1.0 for row in range(ROWS)}
_GROUP = {(ROW, channel): 1.0 for channel in (CHANNEL, CHANNEL + 1)}


@dataclass(frozen=True, slots=True)
class Sharing:
    """Whom a value shares statistics with."""

    names: str
    text: str
    cells: Cells = field(default_factory=dict)
    phi: bool = False


SHARINGS = (
    Sharing("bn", "its channel in all images", _COLUMN),
    Sharing("gn, gn+ws", "a group of channels of its image", _GROUP),
    Sharing("ln", "all of its image", {(ROW, channel): 1.0 for channel in range(CHANNELS)}),
    Sharing("in", "its channel of its image", {(ROW, CHANNEL): 1.0}),
    Sharing("cn", "as gn, then as bn", {**dict.fromkeys(_COLUMN, 0.55), **_GROUP}),
    Sharing("brn", "as bn, drawn towards φ", _COLUMN, phi=True),
    Sharing(
        "tbbn",
        "every r*-th new, all old images",
        {key: 1.0 for key in _COLUMN if key[0] >= STREAM or key[0] % 2 == ROW},
    ),
    Sharing(
        "adab2n",
        "as bn, tasks by learned weights",
        {key: 0.45 if key[0] < STREAM else 1.0 for key in _COLUMN},
    ),
    Sharing("frozen", "φ of the first task, from task 2 on", phi=True),
)


def norms_picture() -> Drawing:
    """A panel for each kind of sharing."""
    shapes: list[Shape] = []
    for index, sharing in enumerate(SHARINGS):
        line, place = divmod(index, ACROSS)
        x, y = SPACE + place * (WIDTH + SPACE), SPACE + line * (HEIGHT + SPACE)
        shapes += _panel(sharing).at(x, y)
    lines = -(-len(SHARINGS) // ACROSS)
    words = "; ".join(f"{each.names}: {each.text}" for each in SHARINGS)
    width, height = ACROSS * (WIDTH + SPACE) + SPACE, lines * (HEIGHT + SPACE) + SPACE
    return Drawing(width, height, tuple(shapes), f"What a value is normalised with. {words}")


def _panel(sharing: Sharing) -> Drawing:
    frame = Box(0.5, 0.5, WIDTH - 1, HEIGHT - 1, stroke=FRAME, faint=True)
    title = Words(EDGE, 22, sharing.names, 13, bold=True)
    below = Words(EDGE, HEIGHT - 12, sharing.text, 9.5, quiet=True)
    return Drawing(WIDTH, HEIGHT, (frame, title, *_grid(sharing), below), sharing.text)


def _grid(sharing: Sharing) -> Iterator[Shape]:
    left, top = EDGE + LABELS, 36
    yield Words(EDGE, top + 2.2 * CELL, "B_t", subscripts=True)
    yield Words(EDGE, top + 2.2 * CELL + STREAM * CELL + 6, "B_M", subscripts=True)
    for row in range(ROWS):
        colour = NOW if row < STREAM else STORED
        y = top + row * CELL + (6 if row >= STREAM else 0)
        for channel in range(CHANNELS):
            x, shade = left + channel * CELL, sharing.cells.get((row, channel), 0.0)
            yield Box(x + 1, y + 1, CELL - 2, CELL - 2, fill=colour, shade=max(shade, 0.13))
            if (row, channel) == (ROW, CHANNEL):
                yield Box(x, y, CELL, CELL, stroke=INK)
    if sharing.phi:
        x = left + CHANNELS * CELL + 10
        yield Box(x, top + ROWS * CELL / 2 - 8, 22, 22, ("φ",), PHI, 0.45, PHI, ink=BLACK, size=12)
