"""Run `bnt demo`, put what it prints into README.md, and its picture into docs/figures.

    python benchmarks/write_demo.py [--out runs]

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

ROOT = Path(__file__).parents[1]
FIGURE = ROOT / "docs" / "figures" / "demo.svg"
PAGE = re.compile(r"results in .*, page written to (.*)\n")

SAID = "It printed this; the last digits differ between machines:"
PICTURE = (
    "![Accuracy on old and newest classes after the last task, by method](docs/figures/demo.svg)"
)


def main() -> None:
    command = [sys.executable, "-m", "bntricks", "demo", *sys.argv[1:]]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    page = PAGE.search(printed)
    if page is None:
        sys.exit("bnt demo wrote no page")
    shutil.copyfile(Path(page[1]).parent / "figures" / "old-and-new.svg", FIGURE)
    lines = [line.rstrip() for line in PAGE.sub("", printed).strip().splitlines()]
    wrapped = "\n".join(fill(line, 98) if len(line) > 98 else line for line in lines)
    readme.put("demo", f"{SAID}\n\n{indent(wrapped, '    ')}\n\n{PICTURE}")


if __name__ == "__main__":
    main()
