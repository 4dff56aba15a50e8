"""The processes of one run that is split on this machine: what torchrun does, but with one voice,
one exit code, and no port that others can reach."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from bntricks.errors import RunError
from bntricks.system.stopping import postponed

STORE, PARENT = "BNT_STORE", "BNT_PARENT"
"""In a rank's environment: the file by which ranks find each other, and who started them."""
LOOPBACK = "lo" if sys.platform == "linux" else "lo0"
PATIENCE = 10.0
"""Seconds that the other ranks have to end once one has failed."""


def launched() -> tuple[int, int]:
    """Return this process's rank and the number of ranks; (0, 1) if it is the only one."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def run_ranks(count: int, command: Sequence[str]) -> int:
    """Run a command as this many ranks. Return 0, or the exit code of the first if that failed and
    said why; of any other failure the reason is raised."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        asked_to_stop = stack.enter_context(postponed())
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        ranks = [
            subprocess.Popen(
                command,
                env=os.environ | _environment(rank, count, Path(folder, "store")),
                stdout=outputs[rank] if rank else None,
                stderr=outputs[rank] if rank else None,
                start_new_session=True,  # a Ctrl-C is for this process to pass on
            )
            for rank in range(count)
        ]
        try:
            failed = None
            while failed is None and any(rank.poll() is None for rank in ranks):
                failed = next((n for n, rank in enumerate(ranks) if rank.poll()), None)
                time.sleep(0.05)
                if asked_to_stop():
                    return 1
            failed = next((n for n, rank in enumerate(ranks) if rank.poll()), None)
            if failed is None:
                return 0
            code = ranks[failed].returncode
            with suppress(subprocess.TimeoutExpired):
                ranks[0].wait(PATIENCE if code > 0 else 0.0)  # it says the same
            if code < 0:
                raise RunError(
                    f"rank {failed} of {count} was killed (signal {-code}): repeat the command, "
                    "which goes on from the last checkpoint"
                )
            if not ranks[0].poll():
                raise RunError(f"rank {failed} of {count} failed: {_last_line(outputs[failed])}")
            return ranks[0].returncode
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()


def follow_launcher() -> None:
    """End this process, if it is such a rank, when the one that started it is killed."""
    if not (launcher := os.environ.get(PARENT)):
        return

    def follow() -> None:
        while os.getppid() == int(launcher):
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _environment(rank: int, count: int, store: Path) -> dict[str, str]:
    one = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": "1"}
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    own = {"TORCHELASTIC_RUN_ID": "bnt", STORE: f"file://{store}", PARENT: str(os.getpid())}
    interfaces = {"GLOO_SOCKET_IFNAME": LOOPBACK, "NCCL_SOCKET_IFNAME": LOOPBACK}
    return {name: str(number) for name, number in numbers.items()} | own | one | interfaces


def _last_line(output: IO[bytes]) -> str:
    output.seek(0)
    lines = output.read().decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("bnt: ") if lines else "it said nothing"
