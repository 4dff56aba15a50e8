"""`bnt status`: how far the runs of a folder are, whoever trains them."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from bntricks.cli import console
from bntricks.cli.app import Json, Switch, app
from bntricks.cli.printing import print_json
from bntricks.errors import counted

if TYPE_CHECKING:
    from bntricks.sweeps.status import RunStatus

WATCH_SECONDS = 5.0


@app.command
def status(out: Path, /, *, watch: Switch = False, json: Json = False) -> None:
    """Show which runs of a folder are done, running, failed or left, and the time to go.

    Reads files alone: whoever trains is not disturbed, on this machine or another.

    Examples:

    - `bnt status runs`
    - `bnt status /shared/runs --watch`

    Parameters
    ----------
    out
        The `--out` of a study, a sweep or runs.
    watch
        Show it again every few seconds, until no run is left or Ctrl-C.
    json
        Print all runs as one JSON object, on one line.
    """
    from bntricks.sweeps.status import State, seconds_to_go, status as status_of

    while True:
        runs = status_of(out)
        if watch and console.out.is_terminal and not json:
            console.out.clear()
        if json:
            counts = {state: _count(runs, state) for state in get_args(State)}
            rows = [asdict(run) for run in runs]
            print_json({**counts, "seconds_to_go": seconds_to_go(runs), "runs": rows})
        else:
            _show(runs, seconds_to_go(runs))
        if not watch or all(run.state in ("done", "failed") for run in runs):
            return
        time.sleep(WATCH_SECONDS)


def _count(runs: Sequence["RunStatus"], state: str) -> int:
    return sum(run.state == state for run in runs)


def _show(runs: Sequence["RunStatus"], seconds: float | None) -> None:
    if running := [run for run in runs if run.state == "running"]:
        rows = [
            [run.name, f"{run.share:.0%}", run.process, _clock(run.since), _left(run.seconds_left)]
            for run in running
        ]
        console.show(["running", "", "where", "since", "to go"], rows)
    if failed := [run for run in runs if run.state == "failed"]:
        rows = [[run.name, run.error, run.process, _clock(run.since)] for run in failed]
        console.show(["failed", "", "where", "when"], rows)
    counts = [f"{_count(runs, state)} {state}" for state in ("running", "failed", "left")]
    of = counted(len(runs), "run")
    to_go = "" if seconds is None else f"; about {_left(seconds)} to go"
    console.say(f"{_count(runs, 'done')} of {of} done, {', '.join(counts)}{to_go}")


def _clock(since: float | None) -> str:
    return "" if since is None else f"{datetime.fromtimestamp(since):%Y-%m-%d %H:%M}"


def _left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}:{minutes:02} h"
