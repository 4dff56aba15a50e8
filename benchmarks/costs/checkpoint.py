"""A checkpoint: how long training waits for one, as a share of the time between two."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bntricks.methods import make
from bntricks.streams import OnProgress
from bntricks.training.checkpoint import NEWEST, Checkpoints
from costs.settings import Settings
from costs.steps import learner_in_fourth_task
from costs.timing import Row, interleaved


def checkpoint(settings: Settings, report: OnProgress) -> list[Row]:
    """In elapsed time, not the processor's: training waits for the disk too."""
    learner, _, _ = learner_in_fourth_task(make("er-bnt"), settings)
    with TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder), {"made": "here"})
        seconds = interleaved(
            {"save": lambda: checkpoints.save({"learner": learner.state_dict()})},
            settings.rounds,
            report,
            what="checkpoints",
            clock=time.perf_counter,
        )["save"]
        size = (Path(folder) / NEWEST).stat().st_size
    note = f"{size / 1e6:.1f} MB in {np.median(seconds):.3f} s"
    between = checkpoints.seconds
    unit = f"of {between:g} s of training"
    return [Row.of("checkpoint", "er-bnt", seconds / between, unit, bound=0.02, note=note)]
