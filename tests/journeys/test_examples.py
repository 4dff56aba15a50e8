"""The examples run as they stand, in a process of their own."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_bn_tricks_in_a_strangers_loop_takes_under_forty_lines_and_learns():
    script = EXAMPLES / "own_loop.py"
    assert len(script.read_text().splitlines()) < 40
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert float(re.search(r"([\d.]+)%", done.stdout)[1]) > 90
