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
    "Config": "runs.config",
    "Diagnosis": "doctor",
    "diagnose": "doctor",
    "mixed": "doctor",
    "train": "runs.train",
    "RunError": "errors",
    "UserError": "errors",
    "IncrementalClassifier": "estimator",
    "Learner": "training.learner",
    "ce": "recipes.losses",
    "Memory": "memory",
    "Reservoir": "recipes.policies",
    "make": "methods",
    "method": "methods",
    "ResNet": "networks.resnet",
    "frozen_ema": "norm",
    "moments": "norm",
    "recalibrate": "norm",
    "swapped": "norm",
    "update_ema": "norm",
    "BM": "recipes.language",
    "BM2": "recipes.language",
    "Bb": "recipes.language",
    "Bmix": "recipes.language",
    "Bp": "recipes.language",
    "Bt": "recipes.language",
    "Loss": "recipes.language",
    "Method": "recipes.language",
    "balanced": "recipes.language",
    "lam": "recipes.language",
    "run": "runs.folder",
    "from_arrays": "streams",
    "open_stream": "streams",
    "bn_tricks": "recipes.rewrite",
}

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'bntricks' has no attribute {name!r}")
    return getattr(import_module(f"bntricks.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
