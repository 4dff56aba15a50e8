"""A report on disk: tables as Markdown, CSV and LaTeX, figures as SVG, PDF and PNG with their data
as CSV, and the page. It is written whole or not at all."""

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
from bntricks.files import commit, parse_json, shown, text_bytes
from bntricks.report.build import Report
from bntricks.report.figures.figure import VEGA_LITE, WIDTH, Figure
from bntricks.report.figures.looks import DARK, INK, PAPER, RAIL
from bntricks.report.page.html import Section
from bntricks.report.page.leaderboard import leaderboard_html
from bntricks.report.page.page import LEADERBOARD, report_html
from bntricks.report.records import COLUMNS, Records
from bntricks.report.tables.latex import to_latex
from bntricks.report.tables.results import printed_verdicts
from bntricks.report.tables.table import csv_text, to_csv, to_markdown

PAGE = "report.html"
RUNS, MEASUREMENTS = "runs.csv", "measurements.csv"
WRITTEN = ".report-files.json"
"""What a report consists of, each file with the SHA-256 of its content."""
PIXELS_PER_INCH = 200
STYLE: dict[str, Any] = {
    "background": PAPER,
    "font": "Helvetica, Arial, sans-serif",
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"}
    | dict.fromkeys(("labelColor", "titleColor", "domainColor", "tickColor"), INK)
    | {"gridColor": RAIL},
    "header": {"labelFontSize": 12, "labelColor": INK},
    "legend": {"labelColor": INK, "titleColor": INK},
    **{mark: {"color": INK} for mark in ("rule", "text", "tick")},
    "view": {"stroke": None},
}
"""How charts look outside the page; they have no title, as a paper has a caption."""
NUMBERED = re.compile(r'(?<=id=")(clip|gradient_)\d+|(?<=url\(#)(clip|gradient_)\d+')
"""What the chart library numbers through all figures of a process."""
SYMBOL = 30
"""What an entry of a legend needs beside its name, in points."""
OBJECT = re.compile(
    rb"^(\d+) 0 obj\n(.*?)((?:\nstream\n.*?)?\nendobj\n\n)", re.DOTALL | re.MULTILINE
)
NAMED = re.compile(rb"( */[a-z]+\d+ \d+ 0 R\n){2,}")
"""What a page refers to, a line each, such as its fonts."""
REFERENCE = re.compile(rb"(\d+) 0 R\b")


def offline(figure: Figure) -> dict[str, Any]:
    """Return a figure's spec for drawing without a network. Names at the ends of lines replace the
    legend; otherwise it has as many columns as fit."""
    columns = max(1, int(WIDTH / (figure.spec["usermeta"]["name"] + SYMBOL)))
    legend = {"orient": "bottom", "columns": columns, "labelFontSize": 11}
    legend |= {"labelLimit": 0, "symbolLimit": 0}
    legend |= figure.spec["usermeta"]["legend"]
    legend = {"disable": True} if figure.ends else {**STYLE["legend"], **legend}
    style = {**STYLE, "legend": legend}
    return {"vl_version": VEGA_LITE, "config": style, "allowed_base_urls": []}


def write(
    report: Report,
    folder: Path | str,
    opening: Sequence[Section] = (),
    figures: Sequence[Figure] = (),
    warn: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write a report into a folder and return the page's path. The page begins with `opening`,
    whose figures are saved too. Figures that cannot be drawn are reported to `warn`."""
    contents = {name: text.encode() for name, text in table_files(report).items()}
    runs = Records(record for group in report.groups for record in group.records)
    for name, rows in ((RUNS, runs.rows()), (MEASUREMENTS, runs.measurements())):
        contents[name] = csv_text(rows[0] if rows else COLUMNS, map(dict.values, rows)).encode()
    for figure in (*report.figures, *figures):
        try:
            files = rendered(figure)
        except RunError as error:  # the page has it still, drawn by the browser
            warn(f"{error.message}; the rest of the report is complete")
            continue
        contents |= {f"figures/{name}": content for name, content in files.items()}
    contents[PAGE] = report_html(report, opening).encode()
    contents[LEADERBOARD] = leaderboard_html(report, PAGE).encode()
    return write_whole(Path(folder), contents)


def table_files(report: Report) -> dict[str, str]:
    """Write the tables by file: in the paper's form, and as long lists for programs."""
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
    """Write all of these files or none, and return the page's path. Files of an earlier report are
    removed unless they have been changed since."""
    written = {name: sha256(content).hexdigest() for name, content in contents.items()}
    contents = {**contents, WRITTEN: json.dumps(written, indent=1).encode()}
    places = {folder / name: content for name, content in contents.items()}
    with _writing_to(folder):
        for parent in {path.parent for path in places}:
            parent.mkdir(parents=True, exist_ok=True)
        outdated = _outdated(folder, contents)
        commit(places, outdated=outdated, lock=folder / f".{PAGE}.lock")
    return folder / PAGE


def _outdated(folder: Path, contents: Mapping[str, bytes]) -> Iterator[Path]:
    """List files of an earlier report in this folder that this one does not have."""
    try:
        earlier = parse_json(text_bytes(folder / WRITTEN))
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
    """Add the folder's name to disk errors."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write the report to {shown(folder)}: {error.strerror}; choose another folder",
            remedy="out",
        ) from None


def svg(figure: Figure) -> bytes:
    """Draw a figure as SVG, light or dark as its reader's screen is, with the same bytes whatever
    was drawn before."""
    with _drawing(figure):
        drawn = vl_convert.vegalite_to_svg(json.dumps(figure.spec), **offline(figure))
    numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))  # anew in each file
    head, end, rest = NUMBERED.sub(lambda m: f"{m[1] or m[2]}{numbers[m[0]]}", drawn).partition(">")
    return f"{head}{end}{DARK}{rest}".encode()


def rendered(figure: Figure) -> dict[str, bytes]:
    """Render a figure's four files, by name."""
    drawn = svg(figure)
    rows = [row.values() for row in figure.rows]
    with _drawing(figure):
        contents = {
            "svg": drawn,
            "pdf": pdf(drawn.decode()),
            "png": vl_convert.svg_to_png(drawn.decode(), ppi=PIXELS_PER_INCH),
            "csv": csv_text(figure.rows[0], rows).encode(),
        }
    return {f"{figure.name}.{ending}": content for ending, content in contents.items()}


@contextmanager
def _drawing(figure: Figure) -> Iterator[None]:
    """Add the figure's name to errors of the chart library."""
    try:
        yield
    except ValueError as error:
        reason = str(error).strip().splitlines()[-1]
        raise RunError(f"cannot draw the figure {shown(figure.name)}: {shown(reason)}") from None


def pdf(svg: str) -> bytes:
    """Convert SVG to PDF, with the same bytes in every process: the library orders fonts by a hash
    table, here objects are in the order of use."""
    content = vl_convert.svg_to_pdf(svg)
    begin, trailer = content.index(b"\n\n") + 2, content.rindex(b"trailer\n")
    objects = {n: (NAMED.sub(_sorted, head), rest) for n, head, rest in OBJECT.findall(content)}
    numbers: dict[bytes, int] = {}
    needed = REFERENCE.findall(content, trailer)
    while needed:
        if (number := needed.pop(0)) not in numbers:
            numbers[number] = len(numbers) + 1
            needed = REFERENCE.findall(objects[number][0]) + needed

    def renumbered(text: bytes) -> bytes:
        return REFERENCE.sub(lambda m: b"%d 0 R" % numbers[m[1]], text)

    written, places = content[:begin], [b"0000000000 65535 f\r\n"]
    for number, new in numbers.items():
        head, rest = objects[number]
        places.append(b"%010d 00000 n\r\n" % len(written))
        written += b"%d 0 obj\n%b%b" % (new, renumbered(head), rest)
    size = b"/Size %d" % len(places)
    end = re.sub(rb"/Size \d+", size, renumbered(content[trailer:]))
    end = re.sub(rb"(?<=startxref\n)\d+", b"%d" % len(written), end)
    return b"%bxref\n0 %d\n%b%b" % (written, len(places), b"".join(places), end)


def _sorted(lines: re.Match[bytes]) -> bytes:
    return b"".join(sorted(lines[0].splitlines(keepends=True)))
