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

from bntricks.bench.raw import raw_steps
from bntricks.bench.rounds import Report, Row, interleaved, row
from bntricks.bench.setting import BATCH, Setting
from bntricks.sweeps.local import follow_parent
from bntricks.training.allocator import keep_memory


def keeping(setting: Setting, report: Report) -> list[Row]:
    """At both widths; nothing where memory is not kept."""
    widths = (setting.width, setting.narrow) if sys.platform == "linux" else ()
    return [_at(width, setting, report) for width in widths]


def _at(width: int, setting: Setting, report: Report) -> Row:
    spent = 0.0

    def steps(other: Connection) -> None:
        nonlocal spent
        other.send("go")
        spent += other.recv()

    with _process(width, setting, keep=True) as one, _process(width, setting, keep=False) as other:
        took = interleaved(
            {"kept": lambda: steps(one), "given back": lambda: steps(other)},
            setting.rounds,
            report,
            what=f"memory kept, width {width}",
            clock=lambda: spent,
        )
    ratio = took["kept"] / took["given back"]
    return row("memory kept", f"raw steps, width {width}", ratio, "× memory given back")


@contextmanager
def _process(width: int, setting: Setting, *, keep: bool) -> Iterator[Connection]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, width, setting, keep), daemon=True)
    process.start()
    theirs.close()  # so that its end is heard
    try:
        yield ours
    finally:
        process.kill()
        process.join()


def _serve(ours: Connection, width: int, setting: Setting, keep: bool) -> None:
    """CPU seconds of a round, as often as asked."""
    follow_parent()
    torch.set_num_threads(1)
    if keep:
        keep_memory()
    work = raw_steps(width, setting.side, passes=1, batch=BATCH, steps=setting.batches)
    while ours.recv():
        start = time.process_time()
        work()
        ours.send(time.process_time() - start)
