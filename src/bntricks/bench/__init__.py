"""What things cost on this machine, against plain PyTorch in the same rounds: see
`benchmarks/README.md` for how each is measured and how to read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from bntricks.bench.allocator import memory_kept
from bntricks.bench.checkpoint import checkpoint
from bntricks.bench.epochs import epochs
from bntricks.bench.evaluation import evaluation, herding
from bntricks.bench.norms import norms
from bntricks.bench.settings import Settings
from bntricks.bench.start_up import start_up
from bntricks.bench.steps import steps
from bntricks.bench.timing import Row
from bntricks.streams import Report
from bntricks.streams.files.progress import silent
from bntricks.training.backend import keep_freed_memory

__all__ = ["PARTS", "Row", "Settings", "measure"]

PARTS = {
    "steps": steps,
    "epochs": epochs,
    "evaluation": evaluation,
    "herding": herding,
    "checkpoint": checkpoint,
    "start-up": start_up,
    "memory-kept": memory_kept,
}
ON_REQUEST = {"norms": norms}
"""Parts of their own, measured when they are named."""


def measure(
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    parts: Sequence[str] = (),
    report: Report = silent,
) -> Iterator[Row]:
    """The rows of these parts, or of all, part by part as they are measured."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    keep_freed_memory()  # as a run does; it serves both sides
    try:
        for part in parts or PARTS:
            yield from (PARTS | ON_REQUEST)[part](settings, report)
    finally:
        torch.set_num_threads(threads)
