"""Whether this machine computes in bfloat16, found out where a crash costs nothing.

Some virtual machines announce matrix instructions that they do not have. A process that uses them
is killed on the spot, without a word.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import torch

from bntricks.errors import UserError

TRIAL = """
import torch
with torch.autocast("cpu", torch.bfloat16):
    maps = torch.nn.Conv2d(32, 32, 3)(torch.ones(32, 32, 4, 4))
    torch.nn.Linear(128, 32)(maps.flatten(1)).sum().backward()
"""


@cache
def check_bf16(device: str) -> None:
    """Fail before any work if bfloat16 would end this process."""
    if torch.device(device).type != "cpu":
        return
    trial = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, check=False)
    if trial.returncode != 0:
        raise UserError(
            "--precision bf16: a trial of bfloat16 arithmetic failed on this CPU. Set "
            "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment if it announces AMX "
            "instructions that it does not have, or leave --precision out"
        )
