"""From records to what readers see: statistics, verdicts on claims, tables, charts and the page.

report = build(load_records(["runs"]))       # bntricks.report.build, .records
page = write(report, "report")               # bntricks.report.files
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bntricks.errors import extra

if TYPE_CHECKING:
    from bntricks.paper import ScaleName, Study
    from bntricks.runs.record import Record

__all__ = ["write_report"]


def write_report(
    records: Iterable[Record],
    folder: Path | str,
    study: Study | None = None,
    scale: ScaleName | None = None,
    title: str | None = None,
    command: str | None = None,
    metrics: Iterable[str] = (),
) -> Path:
    """Build a report, write it into a folder, and return the page's path. With a study and its
    scale there are verdicts too; `metrics` choose the columns of the results."""
    # Here, as charts are slow to import, and others need no more of this package than a table.
    with extra():
        from bntricks.report.build import build
        from bntricks.report.files import write

    return write(build(records, study, scale, title, command, metrics), folder)
