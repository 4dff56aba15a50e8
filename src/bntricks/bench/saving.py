"""A checkpoint: how long training waits for one, as a share of the time between two."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bntricks.bench.rounds import Report, Row, interleaved, row
from bntricks.bench.setting import Setting
from bntricks.bench.steps import prepared
from bntricks.methods import make
from bntricks.runs.checkpoint import NEWEST, Checkpoints


def checkpoint(setting: Setting, report: Report) -> list[Row]:
    """In seconds that pass, not those of the processor: training waits for the disk too."""
    learner, _, _ = prepared(make("er-bnt"), setting)
    with TemporaryDirectory() as folder:
        kept = Checkpoints(Path(folder), {"made": "here"})
        took = interleaved(
            {"save": lambda: kept.save({"learner": learner.state_dict()})},
            setting.rounds,
            report,
            what="checkpoints",
            clock=time.perf_counter,
        )["save"]
        size = (Path(folder) / NEWEST).stat().st_size
    note = f"{size / 1e6:.1f} MB in {np.median(took):.3f} s"
    unit = f"of {kept.seconds:g} s of training"
    return [row("checkpoint", "er-bnt", took / kept.seconds, unit, bound=0.02, note=note)]
