"""What every method must do on an easy stream of seconds: nobody notices a broken replay later."""

from functools import cache

import numpy as np
import pytest

from bntricks.methods import entries, make
from bntricks.runs.config import Config
from bntricks.runs.metrics import acc
from bntricks.runs.train import train
from bntricks.streams import from_arrays

REHEARSAL = [n for n in entries() if make(n).replayed]
# Logits alone carry little after so short a training; everyone else replays labels or classes.
MARGIN = {"der": 10, "der-bnt": 10}
# Slow copies are made for many more steps than these.
FASTER = {"stable": 1.0, "keep": 0.9}


@cache
def stream():
    """Six kinds of 8×8 patterns with noise, two at a time."""
    random = np.random.default_rng(0)
    patterns = random.integers(0, 256, (6, 8, 8))

    def images(count):
        y = np.repeat(np.arange(6), count)
        noisy = patterns[y] + random.normal(0, 25, (len(y), 8, 8))
        return noisy.clip(0, 255).astype(np.uint8), y

    return from_arrays(*images(24), *images(20))


@cache
def accuracy(name):
    size = {"batch": 8, "memory": 36, "memory_batch": 16, "width": 6, "blocks": 1, "stages": 2}
    pace = {"epochs": 3, "lr": 0.1}
    hyper = FASTER if make(name).averages else {}
    config = Config(method=name, hyper=hyper, **pace, **size)
    return acc(train(config, stream()).accuracy)


def cases(names):
    """GSS, which takes many times as long, is only run where there is time."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] if name.startswith("gss") else [])
        for name in names
    ]


@pytest.mark.parametrize("name", cases(REHEARSAL))
def test_replay_beats_its_absence_and_joint_training_beats_all(name):
    assert accuracy("joint") > 95
    assert accuracy("sgd") + MARGIN.get(name, 30) < accuracy(name) <= accuracy("joint")


@pytest.mark.parametrize("name", [n for n in entries() if n not in (*REHEARSAL, "sgd", "joint")])
def test_methods_that_replay_nothing_learn_the_last_task_too(name):
    assert accuracy("sgd") - 3 < accuracy(name) <= accuracy("joint")


def test_training_without_a_memory_knows_only_the_last_task():
    assert 30 < accuracy("sgd") < 40
