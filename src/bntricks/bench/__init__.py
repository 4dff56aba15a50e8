"""What things cost on this machine, against plain PyTorch in the same rounds: see
`benchmarks/README.md` for how each is measured and how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from bntricks.allocation import keep_memory
from bntricks.bench.epochs import epochs
from bntricks.bench.evaluation import evaluation, herding
from bntricks.bench.keeping import keeping
from bntricks.bench.rounds import Report
from bntricks.bench.saving import checkpoint
from bntricks.bench.setting import Setting
from bntricks.bench.starting import start_up
from bntricks.bench.steps import steps

__all__ = ["PARTS", "Setting", "bench"]

PARTS = {
    "steps": steps,
    "epochs": epochs,
    "evaluation": evaluation,
    "herding": herding,
    "checkpoint": checkpoint,
    "start-up": start_up,
    "memory-kept": keeping,
}


def bench(
    setting: Setting = Setting(),  # noqa: B008 (frozen)
    *,
    parts: Sequence[str] = (),
    report: Report = lambda what, done, total: None,
) -> dict[str, Any]:
    """The table of ratios, for `bnt bench`: these parts of it, or all."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    keep_memory()  # as a run does; it serves both sides
    try:
        rows = [row for part in parts or PARTS for row in PARTS[part](setting, report)]
    finally:
        torch.set_num_threads(before)
    return {**asdict(setting), "torch": torch.__version__, "rows": [asdict(row) for row in rows]}
