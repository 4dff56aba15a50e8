"""The study that trains nothing (Figure 2): recipes as pictures, on disk and as a page, with the
columns of the ablation table behind them. Recipes need torch, so this is imported on demand."""

from collections.abc import Sequence
from html import escape
from itertools import starmap
from pathlib import Path

import vl_convert

from bntricks.files import command_line
from bntricks.methods import find
from bntricks.paper import Study
from bntricks.recipes.language import Method
from bntricks.report.diagrams.drawing import fixed, svg
from bntricks.report.diagrams.panels import legend, panel, sheet
from bntricks.report.files import PAGE, PIXELS_PER_INCH, pdf, write_whole
from bntricks.report.page.html import Section, page_html, table_html
from bntricks.report.tables.table import Table, only, plain_cell, to_csv

HEADS = {"ema": "EMA", "parameters": "model parameters"}
DILEMMA = (
    "A sketch of the BN dilemma, after Figure 1 of the paper. Nothing in it is measured: "
    "that is what the studies statistics and overlap are for."
)
READING = (
    "Each grey frame is a forward of one training step, with its batch inside. An arrow to the "
    "left trains θ by the loss on it, one to the right moves φ, and a blocked line does neither."
)


def write_frameworks(study: Study, names: Sequence[str], folder: Path) -> tuple[Path, Table]:
    """Draw these methods, or else the study's; the page's path, and the table of recipes."""
    chosen = list(dict.fromkeys(names or study.methods))
    entries = [find(name) for name in chosen]
    methods = [(entry.title, entry.factory()) for entry in entries]
    drawn = [*starmap(panel, methods), legend([method for _, method in methods])]
    title = "Updating frameworks" if names else study.title
    table = recipe_table(title, chosen, methods)
    words = ["bnt", "study", study.name, *(["--methods", *names] if names else [])]
    command = command_line([*words, "--out", str(folder)])
    sections = [
        Section(
            "frameworks",
            "Frameworks",
            _picture([svg(each, card=False) for each in drawn], READING),
        ),
        Section("recipes", "Recipes", table_html(table, "recipe-table")),
        Section(
            "dilemma",
            "The BN dilemma",
            _picture([fixed(f"dilemma-{n}") for n in (1, 2, 3)], DILEMMA),
        ),
    ]
    summary = f"{len(methods)} recipes, drawn from what the code carries out."
    html = page_html(title, summary, sections, command, charts=False)
    contents = {**_figures(methods, table), PAGE: html.encode()}
    return write_whole(folder, contents), table


def recipe_table(title: str, names: Sequence[str], methods: Sequence[tuple[str, Method]]) -> Table:
    """The ablation table's columns, a row for each method."""
    rows = [
        {"method": name, "title": method_title, **method.columns()}
        for name, (method_title, method) in zip(names, methods, strict=True)
    ]
    columns = tuple(HEADS.get(key, key.replace("_", " ")) for key in rows[0])
    cells = tuple(tuple(plain_cell(value, "g") for value in row.values()) for row in rows)
    return Table(title, columns, cells)


def ablation_columns(table: Table) -> Table:
    """Those that fit a terminal: up to the memory."""
    return only(table, range(table.columns.index("memory") + 1))


def _picture(drawings: Sequence[str], text: str) -> str:
    return (
        f"<figure><figcaption><p>{escape(text)}</p></figcaption>"
        f'<div class="drawings">{"".join(drawings)}</div></figure>'
    )


def _figures(methods: Sequence[tuple[str, Method]], table: Table) -> dict[str, bytes]:
    contents = {"figures/frameworks.csv": to_csv(table).encode()}
    drawn = {"frameworks": svg(sheet(methods), card=True), "dilemma": fixed("dilemma")}
    for name, text in drawn.items():
        contents[f"figures/{name}.svg"] = text.encode()
        contents[f"figures/{name}.pdf"] = pdf(text)
        contents[f"figures/{name}.png"] = vl_convert.svg_to_png(text, ppi=PIXELS_PER_INCH)
    return contents
