"""A finished run as a record: everything worth keeping of it."""

from __future__ import annotations

import platform
import resource
import sys

from bntricks.runs import checkpoint
from bntricks.runs import record as records
from bntricks.runs.config import Config
from bntricks.runs.record import Record
from bntricks.runs.resolve import versions
from bntricks.runs.train import Outcome
from bntricks.streams import Stream
from bntricks.training.learner import Learner


def describe(config: Config, stream: Stream, outcome: Outcome) -> Record:
    """Everything worth keeping of a finished run."""
    cost = outcome.learner.cost
    passes = cost.forwards + cost.tracking_forwards
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kinds = ("train", "test")
    return {
        "method": config.method,
        "stream": config.stream,
        "seed": config.seed,
        **records.metrics(outcome.accuracy),
        "accuracy": outcome.accuracy,
        "task_il": records.metrics(outcome.within),
        "task_il_accuracy": outcome.within,
        "config": config.model_dump(mode="json"),
        "data": {
            "fingerprint": stream.fingerprint,
            "classes": [list(task.classes) for task in stream],
            "class_names": list(stream.class_names),
            "images": dict(zip(kinds, stream.counts, strict=True)),
            "official_images": stream.official and dict(zip(kinds, stream.official, strict=True)),
            "cut_down": stream.cut_down,
        },
        "seconds": {"train": outcome.train_seconds, "evaluate": outcome.evaluate_seconds},
        "steps": cost.steps,
        "forwards": passes,
        "forwards_per_step": passes / cost.steps,
        "images_per_step": cost.images / cost.steps,
        "images_per_second": cost.images / sum(outcome.train_seconds),
        "tracking_forwards": cost.tracking_forwards,
        "tracking_skipped": cost.tracking_skipped,
        "peak_memory_mb": peak / (1024 if sys.platform == "linux" else 1024**2),
        "digest": digest(outcome.learner),
        "versions": {
            **versions(),
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
    }


def digest(learner: Learner) -> dict[str, str]:
    """Hashes of the final weights with their statistics, and of the memory: equal bits, equal
    hashes."""
    memory = {} if learner.memory is None else learner.memory.state_dict()
    return {
        "network": checkpoint.digest(learner.net.state_dict()),
        "memory": checkpoint.digest(memory),
    }
