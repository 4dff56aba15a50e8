"""From records to what a reader sees: statistics, verdicts on the paper's claims, tables, charts
and the page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bntricks.errors import UserError

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
) -> Path:
    """Write tables, figures and the page into a folder; the page's path. With a study and its
    scale there are verdicts too."""
    from bntricks.report.writing import write

    try:
        return write(list(records), Path(folder), study, scale, title, command)
    except OSError as error:
        raise UserError(
            f"cannot write the report to {folder}: {error.strerror}; choose another folder"
        ) from None
