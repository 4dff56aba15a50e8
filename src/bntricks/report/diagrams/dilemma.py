"""The BN dilemma (Sec. 1, Figure 1 a) as a sketch in three panels. Nothing in it is measured: the
samples lie on a spiral, and positions mean nothing beyond their order from left to right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from bntricks.report.diagrams.drawing import INK, Box, Drawing, Line, Oval, Shape, Words, wrapped
from bntricks.report.diagrams.panels import PHI
from bntricks.report.diagrams.tiles import FRAME, NOW, STORED

Point = tuple[float, float]

WIDTH, HEIGHT, SPACE, EDGE = 306, 300, 12, 14
OLD, NEW = (112.0, 124.0), (196.0, 124.0)
"""Where the representations of previous and new classes lie, as far as REACH to each side."""
REACH = (88.0, 62.0)
TURN = math.pi * (3 - math.sqrt(5))


def dilemma() -> Drawing:
    """The three panels side by side."""
    parts = dilemma_panels()
    shapes = [
        shape
        for index, part in enumerate(parts)
        for shape in part.at(SPACE + index * (WIDTH + SPACE), SPACE)
    ]
    width, height = len(parts) * (WIDTH + SPACE) + SPACE, HEIGHT + 2 * SPACE
    return Drawing(width, height, tuple(shapes), " ".join(part.text for part in parts))


def dilemma_panels() -> list[Drawing]:
    """Why new classes are learned badly, why old ones are mistaken, and why φ is off."""
    return [
        _panel(
            "1. Normalised together",
            "Mixed with replay, new classes lie off the batch mean, and are learned slowly.",
            _moments(),
        ),
        _panel(
            "2. Outnumbered where they overlap",
            "Badly separated, previous classes have few samples where new ones have many.",
            _overlap(),
        ),
        _panel(
            "3. Judged by other statistics",
            "Inference uses φ. If every batch moves it, φ leans towards the newest task.",
            _drift(),
        ),
    ]


def _panel(title: str, text: str, content: Iterator[Shape]) -> Drawing:
    lines = wrapped(text, WIDTH - 2 * EDGE)
    shapes: tuple[Shape, ...] = (
        Box(0.5, 0.5, WIDTH - 1, HEIGHT - 1, stroke=FRAME, faint=True),
        Words(EDGE, 24, title, 13, bold=True),
        *content,
        *(Words(EDGE, HEIGHT - 28 + 15 * i, line) for i, line in enumerate(lines)),
    )
    return Drawing(WIDTH, HEIGHT, shapes, f"{title}: {text}")


def _moments() -> Iterator[Shape]:
    """One channel of a layer before it is normalised, by a batch of both, and by one of its own."""
    yield from _axis(108, "B_t and B_M in one forward", (90, STORED, "old"), (222, NOW, "new"))
    yield from _mark(156, 108, "batch mean", INK)
    yield Line(158, 126, 62, 0, INK, "arrow", width=1.2)
    yield Words(168, 140, "off the centre", 10, quiet=True, anchor="middle")
    yield from _axis(216, "B_t in a forward of its own", (222, NOW, "new"))
    yield from _mark(222, 216, "batch mean", INK)


def _drift() -> Iterator[Shape]:
    """The same channel at inference, with φ moved by every batch, and by balanced ones."""
    tasks = ((50, STORED, "task 1"), (112, STORED, "task 2"), (258, NOW, "task 3"))
    yield from _axis(108, "φ follows every forward", *tasks)
    yield from _mark(140, 108, "all classes", INK)
    yield from _mark(199, 108, "φ", PHI)
    yield Line(142, 126, 55, 0, PHI, "arrow", width=1.2)
    yield Words(170, 140, "drift", 10, quiet=True, anchor="middle")
    yield from _axis(216, "φ follows B_b, the balanced batch", *tasks)
    yield from _mark(140, 216, "all classes = φ", PHI)


def _overlap() -> Iterator[Shape]:
    """Representations: what is trained on is solid; rings are test samples of previous classes,
    with the colour of what they are taken for inside."""
    yield Oval(*OLD, *REACH, STORED, 0.15, STORED)
    yield Oval(*NEW, *REACH, NOW, 0.15, NOW)
    yield Words(28, 52, "previous classes", 10, quiet=True)
    yield Words(280, 52, "new classes", 10, quiet=True, anchor="end")
    stored = list(_spiral(OLD, 6, 2.0))
    tested = _clear(_spiral(OLD, 36, 0.9), stored)
    for x, y in _clear(_spiral(NEW, 80, 0.0), stored + tested):
        yield Oval(x, y, 2.4, 2.4, NOW)
    for x, y in tested:
        mistaken = math.hypot((x - NEW[0]) / REACH[0], (y - NEW[1]) / REACH[1]) < 1
        yield Oval(x, y, 3.2, 3.2, NOW if mistaken else "none", stroke=PHI if mistaken else STORED)
    for x, y in stored:
        yield Oval(x, y, 4, 4, STORED, stroke=INK)
    keys = [
        (Oval(0, 0, 2.4, 2.4, NOW), "new, in training", 26, 214),
        (Oval(0, 0, 4, 4, STORED, stroke=INK), "previous, in memory", 150, 214),
        (Oval(0, 0, 3.2, 3.2, stroke=STORED), "previous, in the test", 26, 234),
        (Oval(0, 0, 3.2, 3.2, NOW, stroke=PHI), "taken for new", 150, 234),
    ]
    for dot, words, x, y in keys:
        yield Oval(x, y - 3, dot.rx, dot.ry, dot.fill, stroke=dot.stroke)
        yield Words(x + 10, y, words, 10)


def _axis(y: float, title: str, *classes: tuple[float, str, str]) -> Iterator[Shape]:
    """Where a feature lies for some classes: place, colour and name of each."""
    yield Words(EDGE, y - 54, title, subscripts=True)
    for x, colour, name in classes:
        yield Oval(x, y, 29, 13, colour, 0.45, colour)
        yield Words(x, y + 30, name, 10, anchor="middle")
    yield Line(EDGE, y, WIDTH - 2 * EDGE, 0, FRAME, width=1)


def _mark(x: float, y: float, name: str, colour: str) -> Iterator[Shape]:
    yield Line(x, y - 24, 0, 42, colour, width=2)
    yield Words(x, y - 29, name, 10, bold=True, anchor="middle")


def _spiral(centre: Point, count: int, turned: float) -> Iterator[Point]:
    """Points spread evenly over a region, with nothing random about them."""
    for index in range(count):
        radius, angle = 0.94 * math.sqrt((index + 0.5) / count), turned + index * TURN
        yield (
            centre[0] + REACH[0] * radius * math.cos(angle),
            centre[1] + REACH[1] * radius * math.sin(angle),
        )


def _clear(points: Iterator[Point], taken: Sequence[Point]) -> list[Point]:
    """The points that cover none of those taken."""
    return [point for point in points if all(math.dist(point, other) > 7.5 for other in taken)]
