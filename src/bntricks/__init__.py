"""BatchNorm in class-incremental learning.

    from bntricks import Memory, balance, frozen_ema, update_ema     # in your own loop
    from bntricks import Learner, make                               # or the whole method
    from bntricks import Config, run                                 # or the paper's protocol

Names are imported when they are first used, so that `bnt --help` needs no torch.
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "Batch": "batch",
    "balance": "batch",
    "Config": "config",
    "Diagnosis": "doctor",
    "diagnose": "doctor",
    "mixed": "doctor",
    "train": "engine",
    "RunError": "errors",
    "UserError": "errors",
    "IncrementalClassifier": "estimator",
    "Learner": "learner",
    "ce": "losses",
    "Memory": "memory",
    "Reservoir": "policies",
    "make": "methods",
    "method": "methods",
    "ResNet": "nets",
    "frozen_ema": "norm",
    "moments": "norm",
    "recalibrate": "norm",
    "swapped": "norm",
    "update_ema": "norm",
    "BM": "recipe",
    "BM2": "recipe",
    "Bb": "recipe",
    "Bmix": "recipe",
    "Bp": "recipe",
    "Bt": "recipe",
    "Loss": "recipe",
    "Method": "recipe",
    "balanced": "recipe",
    "lam": "recipe",
    "run": "runs",
    "from_arrays": "streams",
    "open_stream": "streams",
    "bn_tricks": "tricks",
}

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'bntricks' has no attribute {name!r}")
    return getattr(import_module(f"bntricks.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
