"""The state of all runs in a folder, from their files alone: the plans of studies, records, locks,
logs and notes of failures. Whoever trains is not disturbed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bntricks.errors import UserError
from bntricks.files import commit, is_held, pack_json, parse_json, read_errors, text_bytes
from bntricks.runs.record.file import NAME, load
from bntricks.sweeps.estimate import Planned
from bntricks.sweeps.queue import FOLDER, failures, key_of, read

State = Literal["done", "running", "failed", "left"]
LOG, LOCK, REQUEST = "log.jsonl", "lock", "run.json"


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The state of a run."""

    run: str
    name: str
    state: State
    process: str = ""
    """Where it is trained, or has failed."""
    since: float | None = None
    """When that process began with it, or when it failed, in seconds since 1970."""
    share: float = 0.0
    """How much of it is trained."""
    seconds_left: float | None = None
    error: str = ""


def write_plan(out: Path, study: str, plan: Sequence[Planned], names: Sequence[str]) -> None:
    """Write what a study has planned beside its runs, for `bnt status` and for other processes."""
    rows = [
        {"run": each.folder.name, "key": key_of(each.config), "name": name}
        | {"seconds": each.seconds}
        for each, name in zip(plan, names, strict=True)
    ]
    before = known_seconds(out)
    for row in rows:  # of a run that is there, what it was estimated to take stays
        row["seconds"] = row["seconds"] or before.get(str(row["run"]), 0.0)
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    path = out / FOLDER / f"plan-{study}.json"
    commit({path: pack_json({"study": study, "runs": rows})}, lock=out / FOLDER / "lock")


def known_seconds(out: Path) -> dict[str, float]:
    """Return the estimates of earlier plans, by the names of runs."""
    return {row["run"]: row["seconds"] for row in _plans(out) if row["seconds"]}


def status(out: Path, study: str = "") -> list[RunStatus]:
    """Return the state of every run that is planned or begun in this folder, or only of those that
    a study has planned."""
    if not out.is_dir():
        raise UserError(f"{out} is not a folder: give the one with a study's runs")
    rows = {row["run"]: row for row in _plans(out, Path(study).stem or "*")}
    with read_errors(out):
        folders = sorted(path for path in out.iterdir() if path.is_dir())
    for folder in [] if study else folders:
        if any((folder / name).is_file() for name in (NAME, REQUEST)):
            unplanned = {"run": folder.name, "key": "", "name": "", "seconds": 0.0}
            rows.setdefault(folder.name, unplanned)
    if not rows:
        raise UserError(
            f"{out} holds neither runs nor the plan of a study: give one in which runs were begun"
        )
    noted = failures(out)
    found = [_status(out, row, noted.get(row["key"])) for row in rows.values()]
    return [_with_time(each, rows[each.run]["seconds"]) for each in found]


def seconds_to_go(runs: Sequence[RunStatus]) -> float | None:
    """Estimate when all are done, if as many run side by side as now; None if nothing runs."""
    workers = sum(run.state == "running" for run in runs)
    times = [run.seconds_left or 0.0 for run in runs if run.state in ("running", "left")]
    return max(sum(times) / workers, *times) if workers else None


def _plans(out: Path, study: str = "*") -> list[dict[str, Any]]:
    plans = map(read, sorted((out / FOLDER).glob(f"plan-{study}.json")))
    return [row for plan in plans if plan for row in plan["runs"]]


def _status(out: Path, row: dict[str, Any], failed: dict[str, Any] | None) -> RunStatus:
    folder, name, run = out / row["run"], row["name"], row["run"]
    record = load(folder, lambda reason: None)
    if record is not None:
        return RunStatus(run, name or _name(record.config.model_dump()), "done", share=1.0)
    begin, share, left = _progress(folder)
    name = name or _name(begin.get("config", {}))
    if is_held(folder / LOCK):
        process, since = begin.get("process", ""), begin.get("time")
        return RunStatus(run, name, "running", process, since, share, left)
    if failed is not None:
        process, since, error = failed["process"], failed["time"], failed["error"]
        return RunStatus(run, name, "failed", process, since, share, error=error)
    return RunStatus(run, name, "left", share=share)


def _name(config: dict[str, Any]) -> str:
    return "{method} on {stream}, seed {seed}".format(**config) if config else ""


def _progress(folder: Path) -> tuple[dict[str, Any], float, float | None]:
    """Return the newest beginning of a run, how much of it is over, and the seconds it still takes,
    by its log; the time of the newest line is that of the file."""
    begin: dict[str, Any] = {}
    first = last = steps = 0
    try:
        lines, newest = text_bytes(folder / LOG).splitlines(), (folder / LOG).stat().st_mtime
    except OSError:
        return begin, 0.0, None
    for line in lines:
        try:
            event = parse_json(line)
        except ValueError:  # which is being written
            continue
        if event["event"] == "begin":
            begin, first, last = event, 0, 0
        elif "steps" in event:
            steps, last = event["steps"], event["step"]
            first = last if event["event"] == "resumed" else first
    if not steps:
        return begin, 0.0, None
    rate = (last - first) / max(newest - begin.get("time", newest), 1e-9)
    left = (steps - last) / rate - (time.time() - newest) if last > first else None
    return begin, last / steps, None if left is None else max(left, 0.0)


def _with_time(run: RunStatus, planned: float) -> RunStatus:
    """Fall back on the estimate of the plan for a run whose own log does not say."""
    if run.seconds_left is not None or run.state not in ("running", "left"):
        return run
    return replace(run, seconds_left=(1 - run.share) * planned)
