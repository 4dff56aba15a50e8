"""`bnt sweep`: a search for hyper-parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.table import Table as RichTable
from rich.text import Text

from bntricks.cli import console
from bntricks.cli.app import (
    Imports,
    In,
    Json,
    Names,
    Seeds,
    app,
    example,
    import_all,
    refuse_misspelt,
)
from bntricks.cli.printing import print_json, raise_failures
from bntricks.cli.training import train_all
from bntricks.cli.work import Work
from bntricks.errors import UserError
from bntricks.files import command_line
from bntricks.runs.config import Config

if TYPE_CHECKING:
    from bntricks.report.search import SearchResult

SHADES = ("grey19", "grey30", "dark_cyan", "green4", "chartreuse3")
"""From the lowest to the highest ACC."""


@app.command
def sweep(
    *,
    grid: Names = (),
    random: Names = (),
    seeds: Seeds = 3,
    config: Annotated[Config, Parameter(name="*")] = Config(),  # noqa: B008 (frozen)
    work: Annotated[Work, Parameter(name="*")] = Work(),  # noqa: B008 (frozen)
    imports: Annotated[Imports, In.learned] = (),
    json: Annotated[Json, In.output] = False,
    **hyper: Annotated[float, In.learned],
) -> None:
    """Search for hyper-parameters, over a grid or at random.

    Cells are compared on images cut from the training images (`--validation`, 0.1 by default),
    and never on the test images; in the end there is the command that trains the best cell on
    all training images. All other options are those of `bnt run`. Runs that are already there are
    not trained again, so an interrupted sweep continues where it stopped.

    Examples:

    - `bnt sweep --grid lr=0.01,0.03,0.1 memory=200,500 --method er-bnt --stream seq-digits`
    - `bnt sweep --random 20 lr=0.001..0.1:log alpha=0..1 --method der++ --seeds 2`

    Parameters
    ----------
    grid
        Try all combinations of these values: options of a run, or the method's hyper-parameters.
    random
        Draw this many cells at random, from listed values or a range: `20 lr=0.001..0.1:log`. The
        same command draws the same cells again.
    seeds
        Runs of each cell, with seeds that count up from `--seed`.
    json
        Print all cells, the best and its command as one JSON object.
    hyper
        Hyper-parameters of the method that are the same in all cells.
    """
    from bntricks.cli.training import labels
    from bntricks.methods import entries, find
    from bntricks.sweeps.search import parse_knobs, plan_search

    import_all(imports)
    if config.method in entries():
        refuse_misspelt(hyper.keys() - find(config.method).hyper().keys(), "sweep")
    draws, texts = _draws(grid, random)
    device, places = work.placed(config.device)
    base = config.model_copy(update={"hyper": hyper, "device": device})
    search = plan_search(base, parse_knobs(texts), draws=draws, seeds=seeds)
    runs = search.runs
    results = train_all("sweep", runs, work, places=places, json=json)
    if results is None:
        return
    again = ["--random", *random] if random else ["--grid", *grid]
    again = ["bnt", "sweep", *again, "--seeds", str(seeds)]
    _write_and_show(search.result(results), _with_files(base, again, imports), work, imports, json)
    raise_failures(results, labels(runs))


def _draws(grid: tuple[str, ...], random: tuple[str, ...]) -> tuple[int | None, tuple[str, ...]]:
    """Return how many cells are drawn, None for a grid, and what is searched."""
    if bool(grid) == bool(random):
        raise UserError(
            "sweep needs --grid or --random, one of them; for example: " + example("sweep")
        )
    if grid:
        return None, grid
    if not random[0].isdecimal() or int(random[0]) < 1:
        raise UserError(
            "begin with the number of draws, such as --random 20 lr=0.001..0.1:log",
            option="random",
            value=random[0],
        )
    return int(random[0]), random[1:]


def _write_and_show(
    result: SearchResult, again: str, work: Work, imports: tuple[str, ...], json: bool
) -> None:
    from bntricks.report.search import is_map, table
    from bntricks.report.tables.table import to_json, to_rich

    if not any(cell.records for cell in result.cells):
        return
    winner = None
    if result.config is not None:
        winner = _with_files(result.config, ["bnt", "run"], imports, work.data)
    page = _write(result, winner, again, work.out)
    if json:
        cells = [
            {"knobs": cell.knobs, "acc": cell.acc, "sd": cell.sd, "failed": cell.failed}
            | {"runs": [str(record.path) for record in cell.records]}
            for cell in result.cells
        ]
        best = None if result.best is None else result.best.knobs
        tables = [to_json(table(result))]
        print_json(
            {"best": best, "command": winner, "cells": cells, "page": str(page), "tables": tables}
        )
        return
    if is_map(result):
        console.out.print(_heat_map(result))
        console.say(f"\n{result}")
    else:
        console.out.print(to_rich(table(result)))  # which says it in a note
    if winner is not None:
        console.say(
            "\nTrain it on all training images and test it, with this seed and others:\n\n"
            f"    {winner}\n"
        )
    console.say(f"tables and figures in {page.parent}/, page written to {page}")


def _with_files(
    config: Config, begin: list[str], imports: tuple[str, ...], data: Path | None = None
) -> str:
    """Write a command with the options of this configuration, and the user's files."""
    from bntricks.report.commands import options, words_of

    plain = config.model_copy(update={"imports": {}})
    words = options(plain)
    words += [word for own in imports for word in words_of("import", own)]
    words += [] if data is None else words_of("data", data)
    return command_line(begin + words)


def _write(result: SearchResult, winner: str | None, again: str, out: Path) -> Path:
    """Write the report of all runs, with the search before it; return the page's path."""
    from bntricks.report.build import build
    from bntricks.report.files import write
    from bntricks.report.search import figures, section

    records = [record for cell in result.cells for record in cell.records]
    title = f"Search for hyper-parameters on {records[0].stream}"
    report = build(records, title=title, command=again)
    report = replace(report, summary=f"{report.summary} {result}")
    return write(report, out / "sweep", [section(result, winner)], figures(result))


def _heat_map(result: SearchResult) -> RichTable:
    """Print the map of two options, the first down, the second across, the best in bold."""
    from bntricks.report.search import axis_values, worded

    down, across = result.cells[0].knobs
    by_values = {(cell.knobs[down], cell.knobs[across]): cell for cell in result.cells}
    grid = RichTable(title=f"ACC on validation images by {down} and {across}", title_justify="left")
    grid.add_column(f"{down} \\ {across}")
    for column in axis_values(result, across):
        grid.add_column(worded(column), justify="right")
    accs = [cell.acc for cell in result.cells if cell.acc is not None]
    for row in axis_values(result, down):
        cells = [by_values.get((row, column)) for column in axis_values(result, across)]
        grid.add_row(worded(row), *(_shade(cell, cell is result.best, accs) for cell in cells))
    return grid


def _shade(cell: Any, best: bool, accs: list[float]) -> Text:
    """Shade a cell, the lighter the higher its ACC."""
    if cell is None:
        return Text("")
    if cell.acc is None:
        return Text("failed")
    low, high = min(accs), max(accs)
    share = (cell.acc - low) / (high - low) if high > low else 1.0
    spread = "" if cell.sd is None else f" ± {cell.sd:.1f}"
    shade = SHADES[round(share * (len(SHADES) - 1))]
    return Text(f"{cell.acc:.1f}{spread}{' *' * best}", style=f"{'bold ' * best}white on {shade}")
