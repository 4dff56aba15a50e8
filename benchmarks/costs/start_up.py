"""How long the command takes to start: its help text against Python doing nothing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from bntricks.streams import OnProgress
from costs.settings import Settings
from costs.timing import Row, interleaved


def start_up(settings: Settings, report: OnProgress) -> list[Row]:
    """Nothing on Windows, which does not count the CPU time of finished processes."""
    if sys.platform == "win32":
        return []

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    seconds = interleaved(
        {"python": lambda: run("-c", "pass"), "bnt": lambda: run("-m", "bntricks", "--help")},
        settings.rounds,
        report,
        what="start-up",
        clock=_seconds_of_children,
    )
    ratio = seconds["bnt"] / seconds["python"]
    note = f"{np.median(seconds['bnt']):.2f} s"
    return [Row.of("start-up", "bnt --help", ratio, "× python -c pass", note=note)]


def _seconds_of_children() -> float:
    """CPU seconds of the processes this one has waited for."""
    import resource

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
