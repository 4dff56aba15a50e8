"""Everything worth keeping of a finished run, as its record."""

from __future__ import annotations

import platform
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from bntricks.recipes.language import Method
from bntricks.recipes.phi_share import new_share
from bntricks.runs.config import Config
from bntricks.runs.evaluation import Outcome
from bntricks.runs.measurements import BeforeLearning, EpochAccuracy
from bntricks.runs.numerics import numerics
from bntricks.runs.record import Data, Reading, Record, Seconds
from bntricks.streams import Stream
from bntricks.training import checkpoint
from bntricks.training.learner import Learner


def describe(config: Config, stream: Stream, outcome: Outcome) -> Record:
    cost = outcome.learner.cost
    passes = cost.forwards + cost.tracking_forwards
    kinds = ("train", "test")
    before = None
    if outcome.untrained:
        before = BeforeLearning(
            untrained=tuple(outcome.untrained), just_before=tuple(outcome.just_before)
        )
    return Record(
        config=config,
        accuracy=tuple(map(tuple, outcome.accuracy)),
        task_il_accuracy=tuple(map(tuple, outcome.within)),
        readings=_readings(config, outcome),
        before_learning=before,
        epoch_accuracy=tuple(map(EpochAccuracy.model_validate, outcome.epochs)) or None,
        confusion=outcome.confusion or None,
        data=Data(
            fingerprint=stream.fingerprint,
            classes=tuple(task.classes for task in stream),
            class_names=stream.class_names,
            images=dict(zip(kinds, stream.counts, strict=True)),
            official_images=stream.official and dict(zip(kinds, stream.official, strict=True)),
            cut_down=stream.cut_down,
        ),
        seconds=Seconds(
            train=tuple(outcome.train_seconds), evaluate=tuple(outcome.evaluate_seconds)
        ),
        steps=cost.steps,
        forwards=passes,
        forwards_per_step=passes / cost.steps,
        images_per_step=cost.images / cost.steps,
        images_per_second=cost.images / sum(outcome.train_seconds),
        tracking_forwards=cost.tracking_forwards,
        tracking_skipped=cost.tracking_skipped,
        peak_memory_mb=peak_memory_mb(),
        new_share_of_phi=_new_share(config, outcome.learner.method),
        distinct=None if (memory := outcome.learner.memory) is None else memory.distinct,
        digest=digest(outcome.learner),
        versions={
            **checkpoint.versions(),
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        numerics=numerics(config.device),
        finished=datetime.now(UTC).replace(microsecond=0),
    )


def _new_share(config: Config, method: Method) -> float | None:
    return None if config.changed() & Config.options(decides_phi=True) else new_share(method, t=5)


def _readings(config: Config, outcome: Outcome) -> dict[str, Reading] | None:
    if outcome.readings is None or outcome.reader is None:
        return None
    return {
        name: Reading(
            accuracy=tuple(map(tuple, own["accuracy"])),
            task_il_accuracy=tuple(map(tuple, own["within"])),
            new_share_of_phi=_new_share(config, outcome.reader.methods[name]),
        )
        for name, own in outcome.readings.items()
    }


def digest(learner: Learner) -> dict[str, str]:
    """Hashes of the final network and of the memory: equal bits, equal hashes."""
    memory = {} if learner.memory is None else learner.memory.state_dict()
    return {
        "network": checkpoint.digest(learner.net.state_dict()),
        "memory": checkpoint.digest(memory),
    }


def reset_peak_memory() -> None:
    """Let the peak be that of what follows, where the system allows it, as Linux mostly does."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # see proc(5)


def peak_memory_mb() -> float:
    """Of this process since it began, or since the last reset; 0 on systems that do not say."""
    if sys.platform == "win32":
        return 0.0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform == "linux" else 1024**2)
