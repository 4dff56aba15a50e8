"""Many runs on one machine: two workers of one thread against one worker, and against one worker of
two threads, in elapsed time; and how much more memory a worker needs when the data grows."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
from PIL import Image

from bntricks.errors import RunError
from bntricks.runs.config import Config
from bntricks.streams import OnProgress, open_stream
from bntricks.streams.files.progress import silent
from bntricks.sweeps.local import Failure, Shared, sweep
from bntricks.training.events import Sink
from costs.timing import Row, Values, Workload, interleaved

NARROW = 4
"""Width of the network that memory is measured with: small, so that what images add is seen."""


@dataclass(frozen=True, slots=True)
class ScalingSettings:
    """A small study, repeated; long enough that starting the workers, once, weighs little."""

    rounds: int = 15
    runs: int = 4
    epochs: int = 8
    width: int = 16
    images: tuple[int, int] = (4_000, 40_000)
    """Data sets of two sizes, for the memory; in both, a task's test images fill a batch."""
    side: int = 32


def measure_scaling(settings: ScalingSettings, *, report: OnProgress = silent) -> Iterator[Row]:
    """The rows of all that is measured here, as they are measured."""
    # Decoded images go away with the folder.
    with TemporaryDirectory() as folder, patch.dict(os.environ, BNT_CACHE=f"{folder}/cache"):
        yield from time_of_workers(settings, Path(folder), report)
        yield from memory_of_a_worker(settings, Path(folder), report)


def time_of_workers(settings: ScalingSettings, scratch: Path, report: OnProgress) -> list[Row]:
    def study(workers: int, threads: int) -> Workload:
        size = {"width": settings.width, "epochs": settings.epochs, "threads": threads}
        configs = [
            Config.model_validate({"stream": "seq-digits", "seed": seed, **size})
            for seed in range(settings.runs)
        ]
        shared = Shared(out=scratch / "runs", force=True)
        return lambda: peak_megabytes(configs, shared, workers)

    seconds = interleaved(
        {"two": study(2, 1), "one": study(1, 1), "threads": study(1, 2)},
        settings.rounds,
        report,
        what="workers",
        clock=time.perf_counter,
    )
    name = "two workers of one thread"
    note = f"{settings.runs} runs, one worker: {np.median(seconds['one']):.0f} s"
    two = seconds["two"]
    return [
        Row.of("scaling", name, two / seconds["one"], "× one worker", bound=0.55, note=note),
        Row.of("scaling", name, two / seconds["threads"], "× one worker of two threads", bound=1.0),
    ]


def memory_of_a_worker(settings: ScalingSettings, scratch: Path, report: OnProgress) -> list[Row]:
    """As many steps on few images as on many: the peak, and how much of it is the worker's own, not
    pages of the decoded images that all workers share."""
    rows: list[Row] = []
    sizes: list[float] = []  # of the images, in MB
    own: list[float] = []  # at most, in MB; empty where the system does not tell
    for done, count in enumerate(settings.images):
        report("measuring memory", done, len(settings.images))
        data = scratch / f"{count} images"
        write_random_images(data, count, settings.side)
        open_stream("folder", data=data, image_size=settings.side)  # decoded by this process
        epochs = max(settings.images) // count
        config = Config(stream="folder", image_size=settings.side, width=NARROW, epochs=epochs)
        samples: list[float] = []
        peak = peak_megabytes(
            [config],
            Shared(data=data, out=scratch / "runs"),
            workers=1,
            sink=lambda event, samples=samples: samples.extend(own_megabytes()),  # type: ignore[misc]
        )
        sizes.append(count * 3 * settings.side**2 / 1e6)
        own += [max(samples)] if samples else []
        name = f"a worker on {sizes[-1]:.0f} MB of images"
        note = f"its own: {max(samples):.0f} MB" if samples else ""
        rows.append(Row.of("memory", name, peak, "MB at peak", note=note))
    if len(own) == len(sizes):
        growth = np.diff(own) / np.diff(sizes)
        name, unit = "growth of a worker's own", "of the growth of the images"
        rows.append(Row.of("memory", name, growth, unit, bound=0.1))
    return rows


def peak_megabytes(
    configs: list[Config], shared: Shared, workers: int, sink: Sink = lambda event: None
) -> Values:
    """The peak memory of each run's worker; a run that fails is an error here."""
    peaks = []
    for result in sweep(configs, shared, workers=workers, sink=sink):
        if isinstance(result, Failure):
            raise RunError(f"a run of the benchmark failed: {result.error}")
        peaks.append(result.peak_memory_mb)
    return np.array(peaks)


def own_megabytes() -> Iterator[float]:
    """Of each child: memory that is not backed by a file. Only Linux tells."""
    for child in multiprocessing.active_children():
        status = Path(f"/proc/{child.pid}/status")
        if status.exists():
            lines = (line.split() for line in status.read_text().splitlines())
            yield from (int(words[1]) / 1024 for words in lines if words[0] == "RssAnon:")


def write_random_images(folder: Path, count: int, side: int) -> None:
    """A folder of four class folders."""
    random = np.random.default_rng(0)
    for index in range(count):
        file = folder / f"class {index % 4}" / f"{index}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (side, side, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file, compress_level=0)
