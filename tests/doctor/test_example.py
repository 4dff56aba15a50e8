"""The example: a model trained by hand on a biased stream; the doctor's part is under ten lines."""

import runpy
from pathlib import Path

import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "diagnose_a_model.py"


def test_diagnosis_and_repair_of_a_plain_model_take_under_ten_lines(capsys):
    _, ours = EXAMPLE.read_text().split("# From here on it could be any model.\n")
    assert len([line for line in ours.splitlines() if line.strip()]) < 10
    with torch.random.fork_rng():
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    first, last = printed.splitlines()[0], printed.splitlines()[-1]
    assert first.startswith("BatchNorm statistics alone cost this model ")
    assert "points on the old classes" in first
    assert "φ leans towards the newest group (new): its share is 0.5" in printed
    assert "Recalibrate φ on balanced data only if all classes matter alike: +" in printed
    assert last.startswith("after recalibration: BatchNorm statistics have no measurable cost")
