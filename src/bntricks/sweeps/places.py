"""The places of one machine where runs are trained side by side: its GPUs, or the cores of its CPU.

A worker sees its own GPU alone, under the name `cuda`, so a run has the same name on any of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from bntricks.errors import UserError, counted

VISIBLE = "CUDA_VISIBLE_DEVICES"


def places(devices: str, device: str, per_device: int = 1) -> tuple[str, tuple[str, ...]]:
    """Return the kind of device that the runs compute on, and a place for each worker.

    `devices` is a list (`cuda:0,cuda:1`, or cores as `cpu:0,cpu:1`), `auto` for every GPU, or every
    core if there is none, or the number of devices like `device`.
    """
    if devices == "auto":
        gpus = _gpus()
        kind, numbers = ("cuda", range(gpus)) if gpus else ("cpu", range(available_cores()))
        names = [f"{kind}:{number}" for number in numbers]
    elif devices.isdecimal() and int(devices):
        kind = device.partition(":")[0]
        names = [f"{kind}:{number}" for number in range(int(devices))]
    else:
        names = [name.strip() for name in devices.split(",")]
    kinds = {name.partition(":")[0] for name in names}
    if len(kinds) > 1 or not all(re.fullmatch(r"cuda:\d+|cpu:\d+|mps", name) for name in names):
        raise UserError(
            "give auto, a number, or devices of one kind, such as cuda:0,cuda:1 or cpu:0,cpu:1",
            option="devices",
            value=devices,
        )
    if len(set(names)) < len(names):
        raise UserError(
            "a device is named twice: put several runs on each",
            option="devices",
            value=devices,
            remedy="per_device",
        )
    # The first run of every device comes before the second of any.
    return kinds.pop(), tuple(names) * per_device


def check_places(names: Sequence[str]) -> None:
    """Refuse devices that this machine does not have."""
    kind = names[0].partition(":")[0]
    if kind == "mps":
        return  # which a run checks
    count = _gpus() if kind == "cuda" else available_cores()
    missing = [n for n in dict.fromkeys(names) if int(n.partition(":")[2] or 0) >= count]
    if missing:
        what = counted(count, "GPU" if kind == "cuda" else "core")
        raise UserError(
            f"this machine has {what}, counted from 0",
            option="devices",
            value=",".join(missing),
        )


def settle(place: str) -> None:
    """Let this process, which has not begun to compute, use this place alone."""
    kind, _, number = place.partition(":")
    if kind == "cuda":
        before = os.environ.get(VISIBLE, "")
        os.environ[VISIBLE] = before.split(",")[int(number)] if before else number
    elif kind == "cpu" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(number)]})


def available_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()
