"""The records that a report is made of: each run once, and no run with two different results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bntricks.errors import UserError
from bntricks.runs.record import Record
from bntricks.runs.record_file import NAME, first_training, read

if TYPE_CHECKING:
    import pandas


class Records(list[Record]):
    """Runs that were read, and their numbers as a table."""

    def rows(self) -> list[dict[str, Any]]:
        """Every number of every run as a row by column: see `bntricks.report.tidy`."""
        from bntricks.report.tidy import tidy  # which needs groups, which need this module

        return tidy(self)

    def frame(self) -> pandas.DataFrame:
        """The same as a pandas frame."""
        try:
            import pandas
        except ImportError:
            raise UserError(
                "this needs a package: pip install 'bntricks[pandas]'; rows() does without"
            ) from None
        return pandas.DataFrame(self.rows())


def load_records(paths: Path | str | Iterable[Path | str]) -> Records:
    """The runs in this place, or in these, each once: record files, run folders, or folders of run
    folders. A list of `Record`; `load_records("runs").frame()` is a pandas frame of all numbers."""
    places = [paths] if isinstance(paths, str | Path) else paths
    files = [file for path in places for file in _record_files(Path(path))]
    if not files:
        raise UserError("no runs given: name a folder of runs, such as `bnt report runs`")
    return Records(with_readings([read(file) for file in dict.fromkeys(files)]))


def with_readings(runs: Sequence[Record]) -> list[Record]:
    """Every run once, and every reading of one that is not a run of its own as well. Of a run that
    was trained again with different bits, the first training counts."""
    readings = unique(row for run in runs for row in run.rows()[1:])
    return list({**readings, **unique(map(first_training, runs))}.values())


def unique(records: Iterable[Record]) -> dict[str, Record]:
    """Every run once, by its identity. Different results of the same run are an error: nobody knows
    which to believe."""
    by_identity: dict[str, Record] = {}
    for record in records:
        identity = record.config.identity(record.data.fingerprint)
        first = by_identity.setdefault(identity, record)
        if first.accuracy != record.accuracy:
            raise UserError(
                f"{record.method} on {record.stream}, seed {record.seed}, is there twice with "
                f"different results: remove {_place(first)} or {_place(record)}"
            )
    return by_identity


def by_seed(records: Iterable[Record], metric: str) -> dict[int, float]:
    """This number of every run that has it."""
    numbers = {record.seed: record.value(metric) for record in records}
    return {seed: number for seed, number in numbers.items() if number is not None}


def _record_files(path: Path) -> list[Path]:
    try:
        if path.is_dir():
            files = [path / NAME] if (path / NAME).is_file() else sorted(path.rglob(NAME))
        else:
            files = [path] if path.exists() else []
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if files:
        return files
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    raise UserError(
        f"{path} holds no finished run, which would have a {NAME}: name another folder, or train "
        "a run there first"
    )


def _place(record: Record) -> str:
    return "one of them" if record.path is None else str(record.path)
