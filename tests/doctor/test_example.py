"""The example: a model trained by hand on a biased stream; the doctor's part is under ten lines."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "diagnose_a_model.py"


def test_diagnosis_and_repair_of_a_plain_model_take_under_ten_lines():
    _, ours = EXAMPLE.read_text().split("# From here on it could be any model.\n")
    assert len([line for line in ours.splitlines() if line.strip()]) < 10
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)
    first, last = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    assert first.startswith("BatchNorm statistics alone cost this model ")
    assert "points on the old classes" in first
    assert "φ leans towards the newest group (new): its share is 0.5" in done.stdout
    assert "Recalibrate φ on balanced data only if all classes matter alike: +" in done.stdout
    assert last.startswith("after recalibration: BatchNorm statistics have no measurable cost")
