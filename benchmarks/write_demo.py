"""Run `bnt demo`, put what it prints into README.md, and its picture into docs/figures.

    python benchmarks/write_demo.py [--out runs]

First `bnt demo --own-order` is run: its gain, which the demo quotes, must be what `demo.py` says.
Options are passed on. Runs that are already there are not trained again.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import fill, indent

import readme
from bntricks.cli.demo import GAIN_IN_OWN_ORDER

ROOT = Path(__file__).parents[1]
FIGURE = ROOT / "docs" / "figures" / "demo.svg"
GAIN = re.compile(r"^er-bnt against er: (.*), paired over", re.MULTILINE)
PAGE = re.compile(r"results in .*, page written to (.*)\n")

SAID = "It printed this; the last digits differ between machines:"
PICTURE = (
    "![Accuracy on old and newest classes after the last task, by method](docs/figures/demo.svg)"
)


def main() -> None:
    gain = GAIN.search(demo("--own-order"))
    if gain is None or gain[1] != GAIN_IN_OWN_ORDER:
        measured = "no gain" if gain is None else gain[1]
        sys.exit(f"in the data set's own order the demo printed {measured}: change demo.py")
    printed = demo()
    page = PAGE.search(printed)
    if page is None:
        sys.exit("bnt demo wrote no page")
    shutil.copyfile(Path(page[1]).parent / "figures" / "old-and-new.svg", FIGURE)
    lines = [line.rstrip() for line in PAGE.sub("", printed).strip().splitlines()]
    wrapped = "\n".join(fill(line, 98) if len(line) > 98 else line for line in lines)
    readme.put("demo", f"{SAID}\n\n{indent(wrapped, '    ')}\n\n{PICTURE}")


def demo(*flags: str) -> str:
    command = [sys.executable, "-m", "bntricks", "demo", *flags, *sys.argv[1:]]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main()
