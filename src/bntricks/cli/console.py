"""What people see: progress with time left, and tables. Text that came from elsewhere (paths, class
names, records) is data: it is never markup, and what does not print is escaped, so that nothing but
this program can move the cursor, colour the screen or set a title."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table

from bntricks.files import shown

if TYPE_CHECKING:
    from bntricks.streams.files.progress import OnProgress
    from bntricks.training.events import Event, Sink


class _Console(Console):
    """A console that prints texts as they are; colours and cursor movement are Rich's own."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=printable(segment.text))


class _Output(_Console):
    """Standard output; `main` ends the process if nobody reads it any more."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def printable(text: str) -> str:
    """Split text into lines that can be printed to a terminal or a pipe."""
    return "\n".join(map(shown, text.split("\n")))


SILENT_SECONDS, SILENT_SHARE = 20.0, 0.05
"""Where there is no terminal, work that takes longer says how far it is; then again after at least
this share of the time that it has taken."""

# A pipe has no width of its own: it gets one that folds next to nothing.
out = _Output(highlight=False, width=None if sys.stdout and sys.stdout.isatty() else 200)
err = _Console(stderr=True, highlight=False)


@contextmanager
def progress(*, lines: bool = False) -> Iterator[Sink]:
    """Make a sink that shows one run on stderr: task, epoch, loss, speed and time left. Without a
    terminal, such as in a log, it prints a line now and then; with `lines`, also one for each tenth
    of the steps."""
    if not err.is_terminal:
        yield _line_by_line(tenths=lines)
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}% {task.fields[speed]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=err,
        transient=True,
    )
    row = bar.add_task("", total=None, speed="", visible=False)

    def show(event: Event) -> None:
        if event["event"] == "data":
            bar.update(
                row,
                description=escape(event["what"]),
                completed=event["done"],
                total=event["total"],
                visible=True,
                speed="",
            )
        elif event["event"] == "begin":
            bar.reset(row, description="starting", total=None, speed="", visible=True)
        elif event["event"] == "warning":
            bar.print(escape(f"bnt: {event['text']}"))
        elif event["event"] == "resumed":
            bar.print(f"bnt: {_continuing(event)}")
            bar.update(row, completed=event["step"], total=event["steps"])
        elif event["event"] == "work":
            bar.update(row, description=f"{event['what']} {event['done']}/{event['total']}")
        elif event["event"] in ("progress", "epoch"):
            position = "task {task}/{of} epoch {epoch}/{epochs} loss {loss:.3f}".format(**event)
            rate = bar.tasks[0].speed
            bar.update(
                row,
                description=position,
                completed=event["step"],
                total=event["steps"],
                speed=f"{rate:.1f} steps/s" if rate else "",
            )

    with bar:
        yield show


def _continuing(event: Event) -> str:
    return f"continuing from step {event['step']} of {event['steps']}"


class Silence:
    """The time since the last output, and whether it calls for some."""

    def __init__(self) -> None:
        self.began = self.broken = time.monotonic()

    def over(self) -> bool:
        now = time.monotonic()
        return now - self.broken >= max(SILENT_SECONDS, SILENT_SHARE * (now - self.began))

    def end(self) -> None:
        self.broken = time.monotonic()


def _line_by_line(*, tenths: bool) -> Sink:
    """Print a line after a long silence and, if wanted, after each tenth of the steps."""
    silence, began = Silence(), time.monotonic()
    said = first = 0

    def show(event: Event) -> None:
        nonlocal began, said, first
        if event["event"] == "warning":
            complain(event["text"])
            return
        if event["event"] == "resumed":
            began, first = time.monotonic(), event["step"]
            said = 10 * first // event["steps"]
            complain(_continuing(event))
            return
        tenth = 10 * event["step"] // event["steps"] if event["event"] == "epoch" else said
        told = event["event"] in ("data", "work", "progress", "epoch") and silence.over()
        if not told and not (tenths and tenth > said):
            return
        silence.end()
        said, seconds = tenth, time.monotonic() - began
        if event["event"] in ("data", "work"):
            total = "" if event["total"] is None else f" of {event['total']}"
            complain(f"{event['what']}: {event['done']}{total}, {seconds:.0f} s")
            return
        task = "task {task}/{of}, ".format(**event) if event.get("of", 1) > 1 else ""
        position = "epoch {epoch}/{epochs}, loss {loss:.3f}".format(**event)
        left = seconds * (event["steps"] - event["step"]) / (event["step"] - first)
        complain(f"{task}{position}, {seconds:.0f} s, about {left:.0f} s left")

    return show


@contextmanager
def reporting() -> Iterator[OnProgress]:
    """Make a report that shows the progress of work, such as reading images, on stderr."""
    from bntricks.training.events import reported

    with progress(lines=True) as sink:
        yield reported(sink)


def show(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
    """Print a table of plain values, numbers to the right, under its title."""
    if title:
        say(title)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) for row in rows)
        justify: Literal["left", "right"] = "right" if numeric else "left"
        grid.add_column(column, justify=justify, overflow="fold", no_wrap=index == 0)
    for row in rows:
        grid.add_row(*(escape(shown(str(cell))) for cell in row))
    out.print(grid)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write a table of plain values in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    cells = ([str(cell).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def matrix(accuracy: Sequence[Sequence[float | None]]) -> None:
    """Print R: a row for each task learned, a column for each task tested; in parts on a narrow
    terminal."""
    tasks = len(accuracy)
    cell = max(len(f"task {tasks}"), len("100.0")) + 1
    at_once = max(1, (out.width - len("accuracy %") - 1) // cell)
    for first in range(0, tasks, at_once):
        shown_tasks = range(first, min(first + at_once, tasks))
        rows = [
            [f"after {i + 1}", *("" if row[j] is None else f"{row[j]:.1f}" for j in shown_tasks)]
            for i, row in enumerate(accuracy)
            if any(row[j] is not None for j in shown_tasks)
        ]
        show(["accuracy %", *(f"task {j + 1}" for j in shown_tasks)], rows)


def warnings(event: Event) -> None:
    """Make a sink that shows warnings alone."""
    if event["event"] == "warning":
        complain(event["text"])


def say(message: object) -> None:
    """Print to stdout in plain text: never markup, never wrapped."""
    print(printable(str(message)))


def complain(message: str) -> None:
    """Print a message to stderr in plain text: never markup, never wrapped."""
    print(printable(f"bnt: {message}"), file=sys.stderr)
