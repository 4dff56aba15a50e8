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


def test_a_method_of_ones_own_gets_its_bn_tricks_form(tmp_path):
    script = EXAMPLES / "own_method.py"
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "sharp-er-bnt: CE(B_t) + CE(B_M) + 0.5·Sharp(B_M) with φ from B_b" in done.stdout
    assert done.stdout.count("ACC") == 2


def test_classes_are_added_to_a_trained_network(tmp_path):
    script = EXAMPLES / "add_classes.py"
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    before, after, new = map(float, re.findall(r"([\d.]+)%", done.stdout))
    assert before > 90
    assert after > 60
    assert new > 80
    assert "each digit is: 0" in done.stdout
