"""A recipe as a picture, after Figure 2 of the paper. Each row is a forward of a training step with
its batch in a frame. To the left are θ and the losses that train it, to the right is φ. An arrow
moves what it points at; a blocked line leaves it alone."""

from collections.abc import Iterable, Iterator, Sequence
from string import ascii_lowercase
from textwrap import wrap

from bntricks.recipes.language import Balanced, Blended, Copies, Method, Source, Union
from bntricks.report.diagrams.drawing import (
    BLACK,
    FRAME,
    LINE,
    PHI,
    THETA,
    Drawing,
    arrow,
    box,
    grid,
    line,
    lines,
    stop,
    width_of,
    words,
)
from bntricks.report.diagrams.passes import MEMORY, DrawnPass, in_words, notes, passes

EDGE, BAR, TOP, ROW, GAP = 12, 22, 50, 42, 8
"""The margin of a panel, the width of θ and φ, and the heights of its head, a row and a gap."""
LOSS, FRAMES = 52, 168
"""Where losses and frames begin."""
TILE, NOTE = 28, 14
LETTERS = {"title": 32, "loss": 15, "name": 18, "note": 42}
"""The longest lines of text."""
MEANINGS = {
    "B_t": ("#56B4E9", "current task"),
    "B_M": ("#E69F00", "memory"),
    "B_M2": ("#E69F00", "memory, second draw"),
    "B_p": ("#CC79A7", "memory, earlier tasks only"),
    "B_t_mix": ("#9BB38A", "current task, memory mixed in"),
}
"""The colour and meaning of each symbol."""
COLOURS = {name: colour for name, (colour, _) in MEANINGS.items()} | {MEMORY: "#E69F00"}


def sheet(methods: Sequence[tuple[str, Method]]) -> Drawing:
    """Draw all panels, with letters, and the legend as the last."""
    inside = max(_frame_width(row) for _, method in methods for row in passes(method))
    panels = [
        panel(f"({_letter(i)}) {title}", method, inside)
        for i, (title, method) in enumerate(methods)
    ]
    return grid([*panels, legend([method for _, method in methods])], columns=3)


def panel(title: str, method: Method, inside: float = 0.0) -> Drawing:
    """Draw the passes of a step of a recipe, in frames at least as wide as `inside`."""
    rows = passes(method)
    updates = [0, *(row.update for row in rows)]
    labels = [_losses(row, added=row.update == updates[k] > 0) for k, row in enumerate(rows)]
    heights = [max(ROW, LINE * 11 * len(label) + 10) for label in labels]
    inside = max(inside, *map(_frame_width, rows))
    end = TOP + sum(heights) + GAP * (len(rows) - 1)
    phi = FRAMES + inside + 26
    width = phi + BAR + EDGE
    tracker = "every forward" if method.ema is None else f"{method.ema} only"
    steps = f"{len(method.updates)} steps of θ; " * (len(method.updates) > 1)
    quiet = 'fill-opacity="0.75"'
    body = [
        box(0.5, 0.5, width - 1, end + EDGE - 1 + NOTE * len(_notes(method)), _outline(FRAME, 0.5)),
        words(EDGE, 21, _clipped(title, "title"), 13, 'font-weight="bold"'),
        words(EDGE, 38, _clipped(f"{steps}φ ← {tracker}", "note"), 10, quiet),
        *_bar(EDGE, end, "θ", THETA),
        *_bar(phi, end, "φ", PHI),
    ]
    y = float(TOP)
    for row, label, height in zip(rows, labels, heights, strict=True):
        body += _row(row, label, y, height, inside, phi)
        y += height + GAP
    for index, text in enumerate(_notes(method)):
        body.append(words(EDGE, end + NOTE * (index + 1), text, 10, quiet))
    height = end + EDGE + NOTE * len(_notes(method))
    return Drawing(width, height, "\n".join(body), in_words(title, method))


def legend(methods: Iterable[Method]) -> Drawing:
    """Explain the colours and lines of these recipes."""
    shown = [row for method in methods for row in passes(method)]
    sources = [row.source for row in shown if row.source is not None]
    used = {str(symbol) for source in sources for symbol in source.symbols()}
    keys = [
        (_tile(0, 0, name, colour, 20), meaning)
        for name, (colour, meaning) in MEANINGS.items()
        if name in used
    ]
    if any(isinstance(source, Balanced) for source in sources):
        keys.append((lines(18, 10, ("B_b",)), "both, balanced over the classes"))
    keys += [
        (box(0, 0, 34, 20, _frame()), "one forward, one set of batch moments"),
        (arrow(30, 10, -26, THETA), "trains the parameters θ"),
        (arrow(4, 10, 26, PHI), "moves the running statistics φ"),
    ]
    if any("leaves" in (row.theta, row.phi) for row in shown):
        keys.append((stop(8, 10, 16), "leaves them alone"))
    if any(row.theta == "guides" for row in shown):
        keys.append((arrow(30, 10, -26, THETA, dashed=True), "shapes the gradient"))
    body = [
        Drawing(0, 0, icon + words(56, 14, meaning), "").at(0, 26 * index)
        for index, (icon, meaning) in enumerate(keys)
    ]
    return Drawing(285, 26 * len(keys), "\n".join(body), "Legend")


def _row(
    row: DrawnPass, label: Sequence[str], y: float, height: float, inside: float, phi: float
) -> Iterator[str]:
    """Draw a pass: its frame and batch, its losses on the way to θ, and its arrow to φ."""
    middle, end = y + height / 2, FRAMES + inside
    yield box(FRAMES, y, inside, height, _frame())
    if row.source is None:
        yield lines(FRAMES + inside / 2, middle, wrap(row.name, LETTERS["name"]), 9)
    else:
        yield from _items(row.source, FRAMES + (inside - _width(row.source)) / 2, middle)
        if row.name != "forward":
            yield words(FRAMES + 4, y + 9, row.name, 8)
    loss_end = FRAMES - 16
    yield lines((LOSS + loss_end) / 2, middle, label)
    if row.theta == "leaves":
        yield stop(FRAMES, middle, -10)
    else:
        dashed = row.theta == "guides"
        size = LINE * 11 * len(label) + 6
        dash = ' stroke-dasharray="4 3"' * dashed
        yield box(LOSS, middle - size / 2, loss_end - LOSS, size, _outline(THETA, 1) + dash)
        yield line(FRAMES, middle, loss_end - FRAMES, THETA, dashed=dashed)
        yield arrow(LOSS, middle, EDGE + BAR - LOSS, THETA, dashed=dashed)
    if row.phi == "moves":
        yield arrow(end, middle, phi - end, PHI)
    elif row.phi == "leaves":
        yield stop(end, middle, 10)


def _items(source: Source, x: float, middle: float) -> Iterator[str]:
    for name, colour in _parts(source):
        width = _part_width(name, colour)
        if colour:
            yield _tile(x, middle - TILE / 2, name, colour, TILE)
        else:
            yield lines(x + width / 2, middle, (name,))
        x += width


def _parts(source: Source) -> Iterator[tuple[str, str]]:
    """Yield what stands in a frame: tiles with their colours, and text without one."""
    match source:
        case Blended(of):
            yield from _parts(of)
        case Union(left, right):
            yield from (*_parts(left), ("∪", ""), *_parts(right))
        case Balanced(current, memory):
            yield from ((f"{source} =", ""), *_parts(current), ("+", ""), *_parts(memory))
        case _:
            of = source.of if isinstance(source, Copies) else source
            yield _clipped(str(source), "name"), COLOURS.get(str(of), "#BBBBBB")


def _tile(x: float, y: float, name: str, colour: str, height: float) -> str:
    width = _part_width(name, colour)
    paint = f'fill="{colour}"'
    text = words(x + width / 2, y + height / 2 + 4, name, 11, 'text-anchor="middle"', BLACK)
    return box(x, y, width, height, paint) + text


def _width(source: Source) -> float:
    return sum(_part_width(*part) for part in _parts(source))


def _part_width(name: str, colour: str) -> float:
    return max(34.0, width_of(name) + 10) if colour else width_of(name) + 10


def _frame_width(row: DrawnPass) -> float:
    inside = 0.0 if row.source is None else _width(row.source)
    return max(inside, width_of(row.name[: LETTERS["name"]], 9)) + 2 * GAP


def _losses(row: DrawnPass, *, added: bool) -> list[str]:
    """Write a pass's losses in lines, with a plus before all that are added to another."""
    texts = [
        "+ " * (row.theta == "moves" and (added or index > 0)) + text
        for index, text in enumerate(row.losses)
    ]
    return [part for text in texts for part in wrap(text, LETTERS["loss"])[:3]]


def _notes(method: Method) -> list[str]:
    """The memory, and what else there is to know, in lines."""
    stored = [] if method.memory is None else [f"memory: {method.memory}"]
    return [part for text in (*stored, *notes(method)) for part in wrap(text, LETTERS["note"])[:3]]


def _bar(x: float, end: float, name: str, colour: str) -> Iterator[str]:
    yield box(x, TOP, BAR, end - TOP, f'{_outline(colour, 1)} style="fill:{colour}33"')
    yield words(x + BAR / 2, (TOP + end) / 2 + 4, name, 12, 'text-anchor="middle"')


def _frame() -> str:
    return f'fill="currentColor" fill-opacity="0.07" stroke="{FRAME}"'


def _outline(colour: str, width: float) -> str:
    return f'fill="none" stroke="{colour}" stroke-width="{width:g}"'


def _clipped(text: str, what: str) -> str:
    most = LETTERS[what]
    return text if len(text) <= most else text[: most - 1] + "…"


def _letter(index: int) -> str:
    first, second = divmod(index, len(ascii_lowercase))
    return ("" if not first else ascii_lowercase[first - 1]) + ascii_lowercase[second]
