"""Kill runs at random instants, resume them, and compare with undisturbed ones, bit for bit.

    python benchmarks/kill_and_resume.py --kills 100

Each method trains once undisturbed and once under fire: a process of its own that is sent SIGKILL
after a random time, started again, and so on until it has been killed often enough and finishes.
Final weights, statistics and memory (by their hashes) and the accuracy matrix must be equal.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch

from bntricks import Config, Record, run
from bntricks.methods import entries

LITTLE = {"width": 4, "stages": 2, "blocks": 1, "images_per_class": 40, "memory": 30, "epochs": 3}
SAME = ("digest", "accuracy", "task_il_accuracy", "forwards", "tracking_skipped", "steps")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, help="in all, over the methods")
    parser.add_argument("--methods", nargs="*", default=list(entries()), help="default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the instants")
    arguments = parser.parse_args()
    instants = random.Random(arguments.seed)
    kills = differences = 0
    with tempfile.TemporaryDirectory() as folder:
        for index, name in enumerate(arguments.methods):
            share = -(-(arguments.kills - kills) // (len(arguments.methods) - index))
            config = Config(method=name, stream="seq-digits", **LITTLE)
            expected, seconds = undisturbed(config, Path(folder, "whole"))
            killed, record = disturbed(config, Path(folder, "killed"), share, seconds, instants)
            wrong = [key for key in SAME if getattr(expected, key) != getattr(record, key)]
            kills, differences = kills + killed, differences + bool(wrong)
            print(f"{name}: {killed} kills, {', '.join(wrong) or 'no'} difference", flush=True)
    print(f"{kills} kills, {differences} differences")
    return 1 if differences else 0


def undisturbed(config: Config, out: Path) -> tuple[Record, float]:
    start = time.monotonic()
    assert wait(start_run(config, out)) == 0
    seconds = time.monotonic() - start
    return finished(config, out), seconds


def disturbed(
    config: Config, out: Path, kills: int, seconds: float, instants: random.Random
) -> tuple[int, Record]:
    """Train under fire until it is through; a run that got through too early starts over."""
    killed, through = 0, True
    while killed < kills:
        process = start_run(config, out, force=through)
        time.sleep(instants.uniform(0, seconds))
        os.kill(process, signal.SIGKILL)
        status = wait(process)
        assert status in (0, -signal.SIGKILL), f"the run failed by itself, with status {status}"
        through = status == 0
        killed += not through
    assert wait(start_run(config, out)) == 0
    return killed, finished(config, out)


def start_run(config: Config, out: Path, *, force: bool = False) -> int:
    """A child that trains; forked, so that it need not import torch again."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            run(config, out=out, force=force, checkpoint_seconds=0.1)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:  # nothing of the parent's, such as its temporary folder, is the child's to end
            os._exit(code)
    return process


def wait(process: int) -> int:
    """How the child ended: 0, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def finished(config: Config, out: Path) -> Record:
    """The record that a finished run left behind."""
    record = run(config, out=out)
    assert record.already_there
    return record


if __name__ == "__main__":
    sys.exit(main())
