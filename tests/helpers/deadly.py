"""A sweep whose workers die, without training anything."""

import os
import signal
import sys
from dataclasses import dataclass
from types import ModuleType

from helpers.records import a_run


@dataclass(frozen=True)
class DeadlyRuns:
    """Code that a worker imports first: runs that end their process. They stand where real ones
    would be, which would import torch for seconds."""

    def load(self):
        folder = ModuleType("bntricks.runs.folder")
        folder.run = deadly
        sys.modules[folder.__name__] = folder


def deadly(config, request, *, sink):
    """Kill the process at a run of GEM as often as its seed says, and end it at one of GSS."""
    sink({"event": "begin", "process": os.getpid()})
    deaths = request.out / f"{config.method} {config.seed}"
    before = int(deaths.read_text()) if deaths.exists() else 0
    if config.method == "gem" and before < config.seed:
        deaths.write_text(str(before + 1))
        os.kill(os.getpid(), signal.SIGKILL)
    if config.method == "gss":
        os._exit(7)
    if config.method == "fdr":
        raise SystemExit("not today")
    return a_run(config.method, config.seed)


@dataclass(frozen=True)
class PlacedRuns:
    """Runs that say where their process may compute, without training anything."""

    def load(self):
        folder = ModuleType("bntricks.runs.folder")
        folder.run = placed
        sys.modules[folder.__name__] = folder


def placed(config, request, *, sink):
    sink({"event": "begin", "where": [os.getpid(), sorted(os.sched_getaffinity(0))]})
    return a_run(config.method, config.seed)


_KEPT = []


@dataclass(frozen=True)
class PretendedGpus:
    """A machine with one GPU, as a worker sees it that has one of several for itself."""

    def load(self):
        from pathlib import Path

        from bntricks.runs import describe, folder
        from bntricks.system.pretend import pretend

        if _KEPT:
            return
        _KEPT.append(pretend("cuda"))  # for the life of the process
        _KEPT[0].__enter__()
        usual = describe.numerics

        def numerics(device):
            return usual("cpu")

        describe.numerics = numerics
        train = folder.run

        def run(config, request, **how):
            place = Path(request.out) / f"gpu of {config.seed}"
            place.write_text(os.environ["CUDA_VISIBLE_DEVICES"])
            return train(config, request, **how)

        folder.run = run
