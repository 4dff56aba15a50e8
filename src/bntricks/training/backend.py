"""The device, its arithmetic, compiled passes, and the memory allocator."""

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

from bntricks.errors import UserError
from bntricks.norm import mode
from bntricks.training.learner import Learner

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt, in glibc's malloc.h
LARGEST = 2**31 - 1

TRIAL = """
import torch
with torch.autocast("cpu", torch.bfloat16):
    maps = torch.nn.Conv2d(32, 32, 3)(torch.ones(32, 32, 4, 4))
    torch.nn.Linear(128, 32)(maps.flatten(1)).sum().backward()
"""


def check_device(name: str) -> None:
    """Refuse a device that this machine does not have."""
    if re.fullmatch(r"cpu|mps|cuda(:\d+)?", name) is None:
        raise UserError("give cpu, cuda, cuda:N or mps", option="device", value=name)
    if not is_available(name):
        raise UserError(
            "torch finds no such device here; cpu works everywhere", option="device", value=name
        )


def is_available(name: str) -> bool:
    """Whether this machine has this device."""
    kind, index = torch.device(name).type, torch.device(name).index or 0
    count = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": torch.mps.device_count()}[kind]
    return index < count


@contextmanager
def arithmetic(precision: str, *, deterministic: bool) -> Iterator[None]:
    """Set the arithmetic of CUDA devices for a while: by default PyTorch rounds convolutions to
    TF32, here only `tf32` does. `deterministic` forbids kernels whose sums vary in order."""
    cudnn, cublas = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, cublas.allow_tf32
    was_deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    allow_tf32(precision == "tf32")
    if deterministic:
        # cuBLAS reads it when it is first used.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        if deterministic:  # the call brings PyTorch's compiler with it, which takes seconds
            torch.use_deterministic_algorithms(was_deterministic, warn_only=warn_only)
        cudnn.allow_tf32, cublas.allow_tf32 = before


def allow_tf32(allowed: bool) -> None:
    """Set whether products of float32 on a CUDA device may be rounded to 10 bits."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = allowed


def check_tf32(device: str) -> None:
    if torch.device(device).type != "cuda":
        raise UserError(
            "tf32 is arithmetic of CUDA devices: compute in float32 or bf16",
            option="precision",
            value="tf32",
        )


@cache
def check_bf16(device: str) -> None:
    """Refuse bfloat16 if it would end this process.

    Some virtual machines announce matrix instructions that they do not have, and a process that
    uses them is killed. So another process tries first.
    """
    if torch.device(device).type != "cpu":
        return
    trial = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, check=False)
    if trial.returncode != 0:
        raise UserError(
            "a trial of bfloat16 arithmetic failed on this CPU; set "
            "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment if it announces AMX "
            "instructions that it does not have, or compute in float32",
            option="precision",
            value="bf16",
        )


def compile_passes(learner: Learner, shape: tuple[int, ...]) -> None:
    """Compile the network's passes by torch.compile, in place, once for each mode, shape and set of
    tracking flags. A first pass in evaluation mode, which moves no state, shows whether this
    machine can."""
    policy, net = learner.method.memory, learner.net
    if policy is not None and policy.looks_inside:
        raise UserError(
            "this method takes gradients from inside the layers, which compiled passes do not "
            "show: do not compile, or choose another method",
            option="compile",
        )
    net.compile()
    try:
        with mode(net, training=False), torch.inference_mode():
            net(torch.zeros(2, *shape, device=learner.device))
    except Exception as error:  # a missing compiler may raise anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"torch.compile cannot compile the network here ({reason}): leave it out",
            option="compile",
        ) from None


def keep_freed_memory() -> None:
    """Make glibc keep freed memory in this process, for the next step.

    A training step frees its activations and allocates the same again. By default glibc returns
    large blocks to the system each time, which then clears and maps every page again: up to a sixth
    of a step of a small network. Other systems and C libraries are left as they are.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # Turn off trimming only where blocks of any size come from the heap.
    if mallopt is not None and mallopt(MMAP_THRESHOLD, LARGEST):
        mallopt(TRIM_THRESHOLD, LARGEST)
