"""--precision bf16: autocast around every forward pass, in full; or one clear line."""

import os
import subprocess
import sys

import pytest

PRECISE = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
"""Instructions that a machine which announces more than it has does have."""

TWIN = """
import copy

import torch
import torch.nn.functional as F

from bntricks import Learner
from bntricks.methods import make
from bntricks.networks.resnet import ResNet

torch.manual_seed(0)
net, x, y = ResNet(4, width=4), torch.randn(64, 3, 8, 8), torch.arange(64) % 4
plain = copy.deepcopy(net)
learner = Learner(net, make("sgd"), lr=0.1, precision="bf16")
learner.begin([0, 1, 2, 3])
optimiser = torch.optim.SGD(plain.parameters(), lr=0.1)
for _ in range(3):
    learner.observe(x, y)
    optimiser.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        outputs = plain(x)
    assert outputs.dtype == torch.bfloat16
    F.cross_entropy(outputs.float(), y).backward()
    optimiser.step()
for found, wanted in zip(net.parameters(), plain.parameters(), strict=True):
    assert found.dtype == torch.float32
    assert torch.equal(found, wanted)
plain.eval()
with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
    wanted = plain(x)
assert torch.equal(learner.scores(x), wanted.float())
"""

NORMS = """
import torch

from bntricks import NORMS, Learner, replace_norm
from bntricks.methods import make
from bntricks.networks.resnet import ResNet
from bntricks.norm import layers

for name in NORMS.entries():
    found = {}
    for precision in ("float32", "bf16"):
        torch.manual_seed(0)
        net = replace_norm(ResNet(4, width=8, stages=2), name, tasks=2)
        learner = Learner(net, make("er"), memory=20, memory_batch=16, precision=precision)
        for task in (1, 2):
            learner.begin([2 * task - 2, 2 * task - 1])
            for _ in range(2):
                learner.observe(torch.randn(16, 3, 8, 8), torch.arange(16) % 2 + 2 * task - 2)
            learner.end()
        found[precision] = layers(net)
    for layer, wanted in zip(*map(dict.values, (found["bf16"], found["float32"])), strict=True):
        assert layer.running_mean.dtype == torch.float32
        torch.testing.assert_close(layer.running_var, wanted.running_var, rtol=0.05, atol=0.05)
"""

RUN = (
    "run --method er-bnt --stream seq-digits --epochs 1 --width 2 --blocks 1 --stages 2 --memory 20"
)


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_step_and_scores_are_those_of_plain_autocast():
    done = python("-c", TWIN, **PRECISE)
    assert done.returncode == 0, done.stderr


def test_every_normalisation_learns_in_bf16_what_it_does_in_float32():
    done = python("-c", NORMS, **PRECISE)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_run_in_bf16_finishes_or_says_why_it_cannot(tmp_path):
    common = ["-m", "bntricks", *RUN.split(), "--precision", "bf16", "--out", str(tmp_path)]
    as_it_is = python(*common)
    if as_it_is.returncode != 0:
        assert as_it_is.returncode == 2
        assert "--precision bf16: a trial" in as_it_is.stderr
        assert "Traceback" not in as_it_is.stderr
    done = python(*common, **PRECISE)
    assert done.returncode == 0, done.stderr
