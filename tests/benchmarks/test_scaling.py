"""Workers side by side, and their memory, in a study of a few seconds."""

import os
import sys
from dataclasses import asdict

import pytest

from costs.scaling import ScalingSettings, measure_scaling


@pytest.mark.slow
def test_scaling_compares_workers_and_measures_a_workers_memory():
    before = os.environ["BNT_CACHE"]
    settings = ScalingSettings(rounds=1, runs=1, epochs=1, width=2, images=(40, 80), side=8)
    rows = list(map(asdict, measure_scaling(settings)))
    assert [(each["unit"], each["bound"]) for each in rows] == [
        ("× one worker", 0.55),
        ("× one worker of two threads", 1.0),
        ("MB at peak", None),
        ("MB at peak", None),
        *([("of the growth of the images", 0.1)] if sys.platform == "linux" else []),
    ]
    assert all(each["ratio"] > 0 for each in rows[:4])
    assert os.environ["BNT_CACHE"] == before
