"""A sweep whose workers die, without training anything."""

import os
import signal
from dataclasses import dataclass

from bntricks.sweeps.local import Shared
from helpers.records import a_run


@dataclass(frozen=True, slots=True)
class Deadly(Shared):
    """The process is killed at a run of GEM as often as its seed says, and ends at one of GSS."""

    def run(self, training, sink):
        config = training.config
        sink({"event": "begin", "process": os.getpid()})
        deaths = self.out / f"{config.method} {config.seed}"
        before = int(deaths.read_text()) if deaths.exists() else 0
        if config.method == "gem" and before < config.seed:
            deaths.write_text(str(before + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        if config.method == "gss":
            os._exit(7)
        if config.method == "fdr":
            raise SystemExit("not today")
        return a_run(config.method, config.seed)
