"""What is measured of a finished run besides its own accuracy: readings, hashes and memory."""

from __future__ import annotations

import sys

from bntricks.runs import checkpoint
from bntricks.runs.record import Reading
from bntricks.runs.train import Outcome
from bntricks.training.learner import Learner


def taken(outcome: Outcome) -> dict[str, Reading] | None:
    """The readings, if any were taken."""
    if outcome.readings is None:
        return None
    return {
        name: Reading(
            accuracy=tuple(map(tuple, own["accuracy"])),
            task_il_accuracy=tuple(map(tuple, own["within"])),
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


def peak_memory_mb() -> float:
    """Of this process; 0 on systems that do not say."""
    if sys.platform == "win32":
        return 0.0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform == "linux" else 1024**2)
