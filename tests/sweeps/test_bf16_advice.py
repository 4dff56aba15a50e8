"""Whether bfloat16 would be faster here, measured at a run's own size, and said where it would."""

import pytest

from bntricks.runs import describe
from bntricks.runs.config import Config
from bntricks.runs.resolve import resolve
from bntricks.sweeps import estimate
from bntricks.sweeps.estimate import bf16_share
from helpers.command_line import bnt

RUN = {"stream": "seq-digits", "images_per_class": 40, "width": 2, "stages": 2, "blocks": 1}
FLAGS = [word for key, value in RUN.items() for word in (f"--{key.replace('_', '-')}", str(value))]


@pytest.fixture(autouse=True)
def instructions(monkeypatch):
    """A CPU that has some, on which a step takes less time in bfloat16."""
    real = describe.numerics
    found = ["avx512f", "avx512_bf16"]
    seconds = {"float32": 1.0, "bf16": 0.5}
    monkeypatch.setattr(
        describe,
        "numerics",
        lambda device: real(device).model_copy(update={"instructions": tuple(found)}),
    )
    monkeypatch.setattr(
        estimate, "step_seconds", lambda config, *_: seconds[config.precision] * 1e-3
    )
    monkeypatch.setattr("bntricks.training.backend.check_bf16", lambda device: None)
    monkeypatch.setattr(estimate, "WORTH_STEPS", 10)
    return found, seconds


def share(**options):
    stream, config = resolve(Config(method="er", **{**RUN, **options}), None)
    return bf16_share(config, stream)


def test_the_share_is_that_of_two_measured_steps(instructions):
    assert share() == 0.5
    assert share(epochs=1, images_per_class=10) is None, "a run of a few steps"
    assert share(precision="bf16") is None
    instructions[0].remove("avx512_bf16")
    assert share() is None, "a CPU without the instructions"


def test_a_run_says_what_it_would_gain_and_is_silent_where_that_is_nothing(tmp_path, instructions):
    command = ["run", "--method", "er", *FLAGS, "--epochs", "4"]
    first = bnt(*command, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "--precision bf16 would take about 0.50 of the time here" in first.stderr
    assert "bf16" not in bnt(*command, cwd=tmp_path).stderr, "it is there already"
    instructions[1]["bf16"] = 0.95
    assert "bf16" not in bnt(*command, "--seed", "1", cwd=tmp_path).stderr


def test_a_study_says_it_once(tmp_path, one_process):
    study = ["study", "pilot", "--scale", "smoke", "--stream", "seq-digits", "--seeds", "1"]
    done = bnt(*study, "--epochs", "2", "--methods", "er", "er-cur+buf", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("--precision bf16 would take about 0.50") == 1
