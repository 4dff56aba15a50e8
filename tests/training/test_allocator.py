"""Freed memory is kept, so that the next step need not ask the system for it again."""

import sys

import pytest

from helpers.processes import completed

LEFT = """
import sys, torch
from pathlib import Path
from bntricks.training.backend import keep_freed_memory

def megabytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if "VmRSS" in line)

if sys.argv[1] == "kept":
    keep_freed_memory()
before = megabytes()
blocks = [torch.ones(2**24) for _ in range(4)]
largest = megabytes()
del blocks
print((megabytes() - before) / (largest - before))
"""


def share_left(how):
    return float(completed(how, script=LEFT, cwd=".").stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_what_was_freed_stays_with_the_process():
    assert share_left("kept") > 0.95
    assert share_left("given back") < 0.5  # or there would be nothing to keep
