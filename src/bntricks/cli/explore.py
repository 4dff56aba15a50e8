"""`bnt explore`: a page with a slider over BatchNorm's statistics, from records."""

import sys
from pathlib import Path

from bntricks.cli import console
from bntricks.cli.app import Paths, app
from bntricks.cli.models import check_page
from bntricks.files import command_line, shown


@app.command
def explore(runs: Paths, /, *, out: Path = Path("explorer.html")) -> None:
    """Write a page with a slider over the statistics φ.

    It shows what trained networks recognise under other statistics. The runs must have been probed:
    `bnt run --probe phi` and `bnt demo` do so. The page is one file that works offline; it marks
    what was measured and says what it interpolates.

    Examples:

    - `bnt explore runs`
    - `bnt explore runs more_runs --out explorer.html`

    Parameters
    ----------
    runs
        Folders with runs, or record.json files.
    out
        Where to write the page, an HTML file.
    """
    from bntricks.report.explorer.page import write_explorer
    from bntricks.report.explorer.scenes import scenes
    from bntricks.report.records import load_records

    check_page(out, inputs=runs)
    found = scenes(load_records(runs))
    write_explorer(found, out, command_line(["bnt", *sys.argv[1:]]))
    console.say(f"page written to {shown(out)}")
