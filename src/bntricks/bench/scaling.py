"""Many runs on one machine: two workers of one thread against one worker, and against one worker of
two threads, in seconds that pass; and what a worker needs in memory when the data grows."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from bntricks.bench.rounds import Report, Row, Seconds, Subject, interleaved, row
from bntricks.errors import RunError
from bntricks.runs.config import Config
from bntricks.streams import open_stream
from bntricks.sweeps.local import Order, sweep
from bntricks.training.progress import Sink

NARROW = 4
"""The width of the network that memory is measured with, so that what images add is seen."""


@dataclass(frozen=True, slots=True)
class Study:
    """A small study, repeated; long enough that the start of the workers, once, weighs little."""

    rounds: int = 15
    runs: int = 4
    epochs: int = 8
    width: int = 16
    images: tuple[int, int] = (4_000, 40_000)
    """Data sets of two sizes, for the memory; of both, the test images of a task fill a batch."""
    side: int = 32


def bench(study: Study, report: Report) -> Iterator[Row]:
    """The rows of `bnt bench --scaling`, as they are measured."""
    with TemporaryDirectory() as folder, cache_in(Path(folder)):
        yield from timing(study, Path(folder), report)
        yield from memory(study, Path(folder), report)


def timing(study: Study, scratch: Path, report: Report) -> list[Row]:
    def runs(workers: int, threads: int) -> Subject:
        one = Config(stream="seq-digits", width=study.width, epochs=study.epochs, threads=threads)
        configs = [one.model_copy(update={"seed": seed}) for seed in range(study.runs)]
        return lambda: carry_out(configs, Order(out=scratch / "runs", force=True), workers)

    took = interleaved(
        {"two": runs(2, 1), "one": runs(1, 1), "threads": runs(1, 2)},
        study.rounds,
        report,
        what="workers",
        clock=time.perf_counter,
    )
    name = "two workers of one thread"
    note = f"{study.runs} runs, one worker: {np.median(took['one']):.0f} s"
    two = took["two"]
    return [
        row("scaling", name, two / took["one"], "× one worker", bound=0.55, note=note),
        row("scaling", name, two / took["threads"], "× one worker of two threads", bound=1.0),
    ]


def memory(study: Study, scratch: Path, report: Report) -> list[Row]:
    """As many steps on few images as on many: the peak, and how much of it is the worker's own, not
    pages of the decoded images that all workers share."""
    rows, sizes, owns = [], [], []
    for done, count in enumerate(study.images):
        report("measuring memory", done, len(study.images))
        data = scratch / f"{count} images"
        paint(data, count, study.side)
        open_stream("folder", data=data, image_size=study.side)  # decoded by this process
        epochs = max(study.images) // count
        config = Config(stream="folder", image_size=study.side, width=NARROW, epochs=epochs)
        seen: list[float] = []
        peak = carry_out(
            [config],
            Order(data=data, out=scratch / "runs"),
            workers=1,
            sink=lambda event, seen=seen: seen.extend(anonymous_megabytes()),  # type: ignore[misc]
        )
        sizes.append(count * 3 * study.side**2 / 1e6)
        owns += [max(seen)] if seen else []
        name = f"a worker on {sizes[-1]:.0f} MB of images"
        note = f"its own: {max(seen):.0f} MB" if seen else ""
        rows.append(row("memory", name, peak, "MB at peak", note=note))
    if len(owns) == len(sizes):
        growth = np.diff(owns) / np.diff(sizes)
        name, unit = "growth of a worker's own", "of the growth of the images"
        rows.append(row("memory", name, growth, unit, bound=0.1))
    return rows


def carry_out(
    configs: list[Config], order: Order, workers: int, sink: Sink = lambda event: None
) -> Seconds:
    """The peak memory of each run's worker, in MB; a run that fails is an error here."""
    results = sweep(configs, order, workers=workers, sink=sink)
    failed = [result for result in results if not isinstance(result, dict)]
    if failed:
        raise RunError(f"a run of the benchmark failed: {failed[0].reason}")
    return np.array([result["peak_memory_mb"] for result in results if isinstance(result, dict)])


def anonymous_megabytes() -> Iterator[float]:
    """Of each child: memory that no file stands behind. Linux tells, others do not."""
    for child in multiprocessing.active_children():
        status = Path(f"/proc/{child.pid}/status")
        if status.exists():
            found = [line for line in status.read_text().splitlines() if "RssAnon" in line]
            yield from (int(line.split()[1]) / 1024 for line in found)


def paint(folder: Path, count: int, side: int) -> None:
    """A folder of random pictures of four classes."""
    random = np.random.default_rng(0)
    for index in range(count):
        where = folder / f"class {index % 4}" / f"{index}.png"
        where.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (side, side, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(where, compress_level=0)


@contextmanager
def cache_in(folder: Path) -> Iterator[None]:
    """The decoded images go away with the folder."""
    before = os.environ.get("BNT_CACHE")
    os.environ["BNT_CACHE"] = str(folder / "cache")
    try:
        yield
    finally:
        if before is None:
            del os.environ["BNT_CACHE"]
        else:
            os.environ["BNT_CACHE"] = before
