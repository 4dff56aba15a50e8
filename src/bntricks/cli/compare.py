"""`bnt compare`: two runs, or two sets of runs, side by side."""

import sys
from pathlib import Path

from bntricks.cli import console
from bntricks.cli.app import Json, Names, app
from bntricks.cli.models import check_page
from bntricks.cli.printing import print_json
from bntricks.files import command_line, shown


@app.command
def compare(
    a: Path,
    b: Path,
    /,
    *,
    metrics: Names = (),
    report: Path | None = None,
    json: Json = False,
) -> None:
    """Say how two runs, or two sets of runs, differ.

    They may differ in configuration, and seed by seed in results. Differences are A minus B, with
    95% intervals where there are several seeds. Where a folder holds several methods, those of the
    same method and stream are paired.

    Examples:

    - `bnt compare runs/3565f808cde3afbc runs/be71b8795beaf153`
    - `bnt compare runs_before runs_after --metrics acc task_il_acc --report difference.html`

    Parameters
    ----------
    a
        A run, or a folder of runs.
    b
        Another.
    metrics
        What to compare [default: acc bwt forgetting]; `docs/metrics.md` has all.
    report
        Write a page with the tables and curves here, an HTML file.
    json
        Print the tables as one JSON object.
    """
    from bntricks.report.pairs import compare as compare_runs, write_page
    from bntricks.report.tables.table import to_json, to_rich

    if report is not None:
        check_page(report, inputs=[a, b])
    pairs = compare_runs(a, b, metrics)
    if report is not None:
        write_page(pairs, report, command_line(["bnt", *sys.argv[1:]]))
    if json:
        tables = [
            {
                "title": pair.title,
                "configuration": to_json(pair.configuration),
                "differences": to_json(pair.differences),
                "acc_after_each_task": to_json(pair.curve),
            }
            for pair in pairs
        ]
        print_json({"pairs": tables, "page": None if report is None else str(report)})
        return
    for pair in pairs:
        console.say(pair.title)
        for table in pair.tables:
            console.out.print(to_rich(table))
    if report is not None:
        console.say(f"page written to {shown(report)}")
