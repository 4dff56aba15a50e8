"""How long the command takes to begin: `bnt --help` against Python doing nothing."""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np

from bntricks.bench.rounds import Report, Row, interleaved, row
from bntricks.bench.setting import Setting


def start_up(setting: Setting, report: Report) -> list[Row]:
    def runs(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    took = interleaved(
        {"python": lambda: runs("-c", "pass"), "bnt": lambda: runs("-m", "bntricks", "--help")},
        setting.rounds,
        report,
        what="start-up",
        clock=children_seconds,
    )
    note = f"{np.median(took['bnt']):.2f} s"
    return [
        row("start-up", "bnt --help", took["bnt"] / took["python"], "× python -c pass", note=note)
    ]


def children_seconds() -> float:
    """CPU seconds of the processes this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
