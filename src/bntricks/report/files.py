"""A report on disk: tables as Markdown, CSV and LaTeX, figures as SVG, PDF and PNG with the CSV
behind them, and the page. It is written whole or not at all."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import vl_convert

from bntricks.errors import RunError, UserError
from bntricks.files import PARTIAL, held, parse_json, regular_file, remove_leftovers, shown
from bntricks.report import tidy
from bntricks.report.build import Report
from bntricks.report.charts import VEGA_LITE, WIDTH, Figure
from bntricks.report.latex import to_latex
from bntricks.report.page import Section, report_html
from bntricks.report.results import printed_verdicts
from bntricks.report.tables import csv_text, to_csv, to_markdown
from bntricks.system.stopping import postponed

PAGE = "report.html"
WRITTEN = ".report-files.json"
"""What a report consists of, each file with the SHA-256 of its content."""
PIXELS_PER_INCH = 200
STYLE: dict[str, Any] = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"},
    "header": {"labelFontSize": 12},
    "tick": {"color": "black"},
    "view": {"stroke": None},
}
"""How charts look outside the page; they have no title, as a paper has a caption."""
NUMBERED = re.compile(r'(?<=id=")(clip|gradient_)\d+|(?<=url\(#)(clip|gradient_)\d+')
"""What the chart library numbers through all figures of a process."""
SYMBOL = 30
"""What an entry of a legend needs beside its name, in points."""


def offline(figure: Figure) -> dict[str, Any]:
    """How to draw a figure without a network. Names at the ends of lines need no legend, and a
    legend has as many columns as there is room for."""
    columns = max(1, int(WIDTH / (figure.spec["usermeta"]["name"] + SYMBOL)))
    legend = {"orient": "bottom", "columns": columns, "labelFontSize": 11}
    legend |= {"labelLimit": 0, "symbolLimit": 0}
    legend |= figure.spec["usermeta"]["legend"]
    style = {**STYLE, "legend": {"disable": True} if figure.ends else legend}
    return {"vl_version": VEGA_LITE, "config": style, "allowed_base_urls": []}


def write(
    report: Report,
    folder: Path | str,
    opening: Sequence[Section] = (),
    figures: Sequence[Figure] = (),
    warn: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write all of it into a folder; the page's path. The page begins with `opening`, whose own
    figures are saved beside the report's. A figure that cannot be drawn is reported to `warn`."""
    contents = {name: text.encode() for name, text in table_files(report).items()}
    runs = [record for group in report.groups for record in group.records]
    contents[tidy.NAME] = tidy.to_csv(runs).encode()
    for figure in (*report.figures, *figures):
        try:
            files = rendered(figure)
        except RunError as error:  # the page has it still, drawn by the browser
            warn(f"{error.message}; the rest of the report is complete")
            continue
        contents |= {f"figures/{name}": content for name, content in files.items()}
    contents[PAGE] = report_html(report, opening).encode()
    return write_whole(Path(folder), contents)


def table_files(report: Report) -> dict[str, str]:
    """The tables by file: as the paper prints them for reading and for LaTeX, and as long lists for
    programs."""
    files = {
        "results.md": to_markdown(report.form),
        "results.tex": to_latex(report.form),
        "results.csv": to_csv(report.results),
        "cost.md": to_markdown(report.cost),
        "cost.tex": to_latex(report.cost),
    }
    if report.verdict_table is not None:
        files["verdicts.md"] = to_markdown(report.verdict_table)
        files["verdicts.tex"] = to_latex(printed_verdicts(report.verdict_table))
        files["verdicts.csv"] = to_csv(report.verdict_table)
    return files


def write_whole(folder: Path, contents: Mapping[str, bytes]) -> Path:
    """Write all of these files or none; the page's path. Each is written beside its place first,
    so that nothing but the renaming is left to do when the first one is replaced; two writers take
    turns, and a request to stop waits until the last one is in its place. What only an earlier
    report wrote is removed, unless somebody has changed it since."""
    written = {name: sha256(content).hexdigest() for name, content in contents.items()}
    contents = {**contents, WRITTEN: json.dumps(written, indent=1).encode()}
    places = {regular_file(folder / name): content for name, content in contents.items()}
    partial = {path: path.with_name(f".{path.name}{PARTIAL}") for path in places}
    parents = {path.parent for path in (folder / PAGE, *places)}
    with _writing_to(folder):
        for parent in parents:
            parent.mkdir(parents=True, exist_ok=True)
        with held(folder / PAGE, wait=True):
            try:
                for path, content in places.items():
                    partial[path].write_bytes(content)
                outdated = [*_outdated(folder, contents)]
                with postponed():
                    for path in places:
                        partial[path].replace(path)
                    for path in outdated:
                        path.unlink()
            finally:
                for parent in parents:
                    remove_leftovers(parent)
    return folder / PAGE


def _outdated(folder: Path, contents: Mapping[str, bytes]) -> Iterator[Path]:
    """What an earlier report left in this folder, and this one does not have."""
    try:
        earlier = parse_json((folder / WRITTEN).read_bytes())
    except (OSError, ValueError):
        return
    for name, digest in earlier.items() if isinstance(earlier, dict) else ():
        path = folder / name
        inside = not Path(name).is_absolute() and ".." not in Path(name).parts
        own = inside and path.is_file() and not path.is_symlink()
        if name not in contents and own and sha256(path.read_bytes()).hexdigest() == digest:
            yield path


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    """What goes wrong on the disk is said with the folder's name."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write the report to {shown(folder)}: {error.strerror}; choose another folder",
            remedy="out",
        ) from None


def svg(figure: Figure) -> bytes:
    """The same figure is the same file, whatever was drawn before it."""
    with _drawing(figure):
        drawn = vl_convert.vegalite_to_svg(json.dumps(figure.spec), **offline(figure))
    numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))  # anew in each file
    return NUMBERED.sub(lambda m: f"{m[1] or m[2]}{numbers[m[0]]}", drawn).encode()


def rendered(figure: Figure) -> dict[str, bytes]:
    """The figure's four files by name."""
    drawn = svg(figure)
    rows = [row.values() for row in figure.rows]
    with _drawing(figure):
        contents = {
            "svg": drawn,
            "pdf": vl_convert.svg_to_pdf(drawn.decode()),
            "png": vl_convert.svg_to_png(drawn.decode(), ppi=PIXELS_PER_INCH),
            "csv": csv_text(figure.rows[0], rows).encode(),
        }
    return {f"{figure.name}.{ending}": content for ending, content in contents.items()}


@contextmanager
def _drawing(figure: Figure) -> Iterator[None]:
    """What the chart library refuses is said with the figure's name."""
    try:
        yield
    except ValueError as error:
        reason = str(error).strip().splitlines()[-1]
        raise RunError(f"cannot draw the figure {shown(figure.name)}: {shown(reason)}") from None
