"""Memory that a step frees stays with the process, for the next step to take.

A training step frees its activations and asks for the same again. glibc gives large blocks back to
the system each time, which then clears and maps every page anew: up to a sixth of a step of a small
network. Kept, they cost nothing, and the process is as large as at its peak anyway.
"""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt, in glibc's malloc.h
LARGEST = 2**31 - 1


def keep_memory() -> None:
    """For the whole process. Other systems and C libraries are left as they are."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # Trimming is only turned off where blocks of any size come from the heap that is kept.
    if mallopt is not None and mallopt(MMAP_THRESHOLD, LARGEST):
        mallopt(TRIM_THRESHOLD, LARGEST)
