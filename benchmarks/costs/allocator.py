"""What it is worth to keep freed memory: plain steps in two processes, in turns, of which one keeps
it. An allocator cannot be changed back, so each has a process of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

import torch

from bntricks.streams import OnProgress
from bntricks.sweeps.local import follow_parent
from bntricks.training.backend import keep_freed_memory
from costs.plain_pytorch import plain_steps
from costs.settings import BATCH, Settings
from costs.timing import Row, interleaved


def memory_kept(settings: Settings, report: OnProgress) -> list[Row]:
    """At both widths; nothing where memory is not kept."""
    widths = (settings.width, settings.narrow) if sys.platform == "linux" else ()
    return [_compare(width, settings, report) for width in widths]


def _compare(width: int, settings: Settings, report: OnProgress) -> Row:
    total = 0.0

    def run(process: Connection) -> None:
        nonlocal total
        process.send("go")
        total += process.recv()

    with (
        _process(width, settings, keep=True) as keeping,
        _process(width, settings, keep=False) as giving_back,
    ):
        seconds = interleaved(
            {"kept": lambda: run(keeping), "given back": lambda: run(giving_back)},
            settings.rounds,
            report,
            what=f"memory kept, width {width}",
            clock=lambda: total,
        )
    ratio = seconds["kept"] / seconds["given back"]
    return Row.of("memory kept", f"raw steps, width {width}", ratio, "× memory given back")


@contextmanager
def _process(width: int, settings: Settings, *, keep: bool) -> Iterator[Connection]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, width, settings, keep), daemon=True)
    process.start()
    theirs.close()  # so that we notice when the process ends
    try:
        yield ours
    finally:
        process.kill()
        process.join()


def _serve(connection: Connection, width: int, settings: Settings, keep: bool) -> None:
    """Answer every message with the CPU seconds of one round."""
    follow_parent()
    torch.set_num_threads(1)
    if keep:
        keep_freed_memory()
    work = plain_steps(width, settings.side, passes=1, batch=BATCH, steps=settings.batches)
    while connection.recv():
        start = time.process_time()
        work()
        connection.send(time.process_time() - start)
