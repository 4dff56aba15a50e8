"""Records from disk, checked before anything is made of them: a report never averages what it does
not understand. A record is refused if its numbers do not follow from its own accuracy matrix."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, Field, ValidationError

from bntricks.errors import UserError
from bntricks.runs.config import Config, explain
from bntricks.runs.maps import BiasedPhi
from bntricks.runs.record import NAME, Record, metrics

Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
ROUNDING = 1e-6


class _Data(BaseModel):
    fingerprint: str
    cut_down: bool
    images: dict[str, int]
    official_images: dict[str, int] | None


class _Saved(BaseModel):
    """What a report reads of a record."""

    method: str
    stream: str
    seed: int
    accuracy: Annotated[list[list[Percent | None]], Field(min_length=1)]
    config: Config
    data: _Data
    forwards_per_step: Positive
    images_per_second: Positive
    versions: dict[str, str]
    biased_phi: BiasedPhi | None = None


def load_records(paths: Iterable[Path | str]) -> list[Record]:
    """The runs in these places, each once: record files, run folders, or folders of such."""
    files = [file for path in paths for file in _files(Path(path))]
    if not files:
        raise UserError("no runs given: name a folder of runs, such as `bnt report runs`")
    return unique([_load(file) for file in dict.fromkeys(files)])


def settings(record: Record) -> dict[str, Any]:
    """A run's knobs; one that is newer than the run was at its default."""
    return {**Config().model_dump(mode="json"), **record["config"]}


def unique(records: Sequence[Record]) -> list[Record]:
    """Every run once. The same run with other results is an error, as nobody knows which is it."""
    found: dict[str, Record] = {}
    for record in records:
        whole = [settings(record), record["data"]["fingerprint"]]
        first = found.setdefault(json.dumps(whole, sort_keys=True), record)
        if first["accuracy"] != record["accuracy"]:
            raise UserError(
                f"{record['method']} on {record['stream']}, seed {record['seed']}, is there twice "
                f"with other results: remove {_place(first)} or {_place(record)}"
            )
    return list(found.values())


def _files(path: Path) -> list[Path]:
    try:
        if path.is_dir():
            own = path / NAME
            found = [own] if own.is_file() else sorted(path.rglob(NAME))
        else:
            found = [path] if path.exists() else []
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if found:
        return found
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    raise UserError(
        f"{path} holds no finished run, which would have a {NAME}: "
        f"name another folder, or train with `bnt run --out {path}`"
    )


def _load(file: Path) -> Record:
    try:
        record = json.loads(file.read_bytes(), parse_constant=_refuse)
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError):
        _corrupt(file, "not whole JSON")
    if not isinstance(record, dict):
        _corrupt(file, "not a JSON object")
    try:
        saved = _Saved.model_validate(record)
    except ValidationError as error:
        _corrupt(file, _first(error))
    _check(file, record, saved)
    path = file.parent if file.name == NAME else file
    return {**record, "config": saved.config.model_dump(mode="json"), "path": str(path)}


def _check(file: Path, record: Record, saved: _Saved) -> None:
    r = saved.accuracy
    if any(len(row) != len(r) for row in r) or None in r[-1]:
        _corrupt(file, "accuracy is not a square matrix with a whole last row")
    for key, value in metrics(r).items():
        if not _same(record.get(key), value):
            _corrupt(file, f"{key} does not follow from the accuracy matrix")
    for key in ("method", "stream", "seed"):
        if getattr(saved, key) != getattr(saved.config, key):
            _corrupt(file, f"{key} is not the configuration's")


def _same(given: Any, right: Any) -> bool:
    if isinstance(right, list):
        return (
            isinstance(given, list) and len(given) == len(right) and all(map(_same, given, right))
        )
    if right is None or not isinstance(given, int | float):
        return given is right
    return bool(abs(given - right) < ROUNDING)


def _first(error: ValidationError) -> str:
    mistake = error.errors()[0]
    where = ".".join(map(str, mistake["loc"]))
    return f"{where}: {mistake['msg']}" if where else explain(error)


def _corrupt(file: Path, reason: str) -> NoReturn:
    raise UserError(
        f"{file} is no record of a run ({reason}): delete it, or train again with --force"
    )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _place(record: Record) -> str:
    return str(record.get("path", "one of them"))
