"""What things cost on this machine, against plain PyTorch in the same rounds: see
`benchmarks/README.md` for how each is measured and how to read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from bntricks.bench.allocator import keeping
from bntricks.bench.epochs import epochs
from bntricks.bench.evaluation import evaluation, herding
from bntricks.bench.rounds import Report, Row
from bntricks.bench.saving import checkpoint
from bntricks.bench.setting import Setting
from bntricks.bench.starting import start_up
from bntricks.bench.steps import steps
from bntricks.training.allocator import keep_memory

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
) -> Iterator[Row]:
    """The rows of `bnt bench`, part by part as they are measured: these parts, or all."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    keep_memory()  # as a run does; it serves both sides
    try:
        for part in parts or PARTS:
            yield from PARTS[part](setting, report)
    finally:
        torch.set_num_threads(before)
