"""Run `bnt demo`, put what it prints into README.md, its pictures into docs/figures, and its
records into docs/demo, from which the site makes its explorer.

    python benchmarks/write_demo.py [--out runs]

First `bnt demo --own-order` is run: its gain, which the demo quotes, must be what `demo.py` says.
Options are passed on. Runs that are already there are not trained again.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import fill, indent

import altair as alt

import readme
from bntricks.cli.demo import GAIN_IN_OWN_ORDER
from bntricks.report.explorer.page import TITLE, bars, curve, rows_of, sentence, start_of
from bntricks.report.explorer.scenes import MethodLine, scenes
from bntricks.report.figures.figure import WIDTH, Figure
from bntricks.report.files import svg
from bntricks.report.records import load_records

DOCS = Path(__file__).parents[1] / "docs"
RECORDS = DOCS / "demo"
GAIN = re.compile(r"^ER-BNT against ER: (.*), paired over", re.MULTILINE)
PAGE = re.compile(r"results in .*, page written to (.*)\n")

SAID = "It printed this; the last digits differ between machines:"


def main() -> None:
    gain = GAIN.search(demo("--own-order"))
    if gain is None or gain[1] != GAIN_IN_OWN_ORDER:
        measured = "no gain" if gain is None else gain[1]
        sys.exit(f"in the data set's own order the demo printed {measured}: change demo.py")
    publish(demo())


def publish(printed: str) -> None:
    """Put what the demo printed, and what it wrote, where the docs show it."""
    page = PAGE.search(printed)
    if page is None:
        sys.exit("bnt demo wrote no page")
    out = Path(page[1]).parent
    shutil.copyfile(out / "figures" / "old-and-new.svg", DOCS / "figures" / "demo.svg")
    chosen = [record for record in load_records(out) if record.config.class_order is not None]
    shutil.rmtree(RECORDS, ignore_errors=True)
    for record in chosen:
        assert record.path is not None
        (RECORDS / record.path.name).mkdir(parents=True)
        shutil.copyfile(record.path / "record.json", RECORDS / record.path.name / "record.json")
    (DOCS / "figures" / "explorer.svg").write_bytes(
        svg(still(scenes(load_records(RECORDS))[0].pair))
    )
    lines = [line.rstrip() for line in PAGE.sub("", printed).strip().splitlines()]
    wrapped = "\n".join(fill(line, 98) if len(line) > 98 else line for line in lines)
    readme.put("demo", f"{SAID}\n\n{indent(wrapped, '    ')}")


def still(pair: tuple[MethodLine, MethodLine]) -> Figure:
    """The explorer as a picture, at the share that it opens with."""
    share = start_of(pair)
    rows = rows_of(pair, share)
    shown = f"Correct at a share of {share:.0%}"
    whole = alt.hconcat(
        bars(pair).properties(title=shown, width=WIDTH * 0.55),
        curve(pair).properties(title="Correct over all classes, by the share", width=WIDTH * 0.55),
        spacing=50,
    )
    whole = whole.properties(datasets=rows)
    whole = whole.resolve_scale(color="independent", strokeDash="independent")
    return Figure("explorer", TITLE, sentence(pair), whole, rows["curve"])


def demo(*flags: str) -> str:
    command = [sys.executable, "-m", "bntricks", "demo", *flags, *sys.argv[1:]]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main()
