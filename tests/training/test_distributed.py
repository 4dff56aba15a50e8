"""One run on two ranks: real processes, started by torchrun, that talk through gloo."""

import json
import subprocess
import sys

import pytest
import torch
from torch import nn

from bntricks.batch import Batch
from bntricks.norm import Moments, follow, observed
from bntricks.runs.checkpoint import pack, unpack
from bntricks.runs.config import Config
from bntricks.runs.resolve import resolve
from bntricks.runs.train import train
from bntricks.training.distributed import Team

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
LITTLE = {"width": 2, "stages": 2, "blocks": 1, "images_per_class": 24, "memory": 20, "epochs": 1}
ON_TWO = """
import json, os, sys
import torch
from bntricks.runs.checkpoint import pack
from bntricks.runs.config import Config
from bntricks.runs.train import train
from bntricks.runs.resolve import resolve
from bntricks.training.distributed import joined, launched

rank, size = launched()
with joined(size, "cpu") as ranks:
    for name, method, synchronised in json.loads(sys.argv[1]):
        how = dict(ranks=size, synchronised=synchronised, **json.loads(sys.argv[2]))
        stream, config = resolve(Config(method=method, stream="seq-digits", **how), None)
        outcome = train(config, stream, ranks=ranks)
        state = {"state": outcome.learner.state_dict(), "accuracy": outcome.accuracy}
        open(f"{name}.{rank}", "wb").write(pack(state))
"""
METHODS = ["sgd", "er", "er-bnt", "er-balance-batch", "der++", "der++-bnt"]


@pytest.fixture(scope="module")
def on_two_ranks(tmp_path_factory):
    """Final states by name and rank: each method with statistics of its own and of all ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    jobs = [(f"{m}-{s}", m, s) for m in METHODS for s in (False, True)]
    script = folder / "on_two.py"
    script.write_text(ON_TWO)
    command = [*TORCHRUN, script, json.dumps(jobs), json.dumps(LITTLE)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return lambda name, rank: unpack((folder / f"{name}.{rank}").read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("synchronised", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_all_ranks_come_to_the_same_state(on_two_ranks, method, synchronised):
    first, second = (on_two_ranks(f"{method}-{synchronised}", rank) for rank in (0, 1))
    assert pack(first["state"]) == pack(second["state"])
    assert first["accuracy"] == second["accuracy"]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_with_synchronised_statistics_two_ranks_are_like_one(on_two_ranks, method):
    stream, config = resolve(Config(method=method, stream="seq-digits", **LITTLE), None)
    alone = unpack(pack(train(config, stream).learner.state_dict()))
    shared = on_two_ranks(f"{method}-True", 0)["state"]
    for name, value in alone["net"].items():
        torch.testing.assert_close(shared["net"][name], value, rtol=2e-3, atol=2e-4, msg=name)
    if alone["memory"] is not None:
        for name in ("x", "y", "ids", "tasks", "filled", "offered"):
            assert torch.equal(
                torch.as_tensor(alone["memory"][name]), torch.as_tensor(shared["memory"][name])
            )
    assert pack(alone["generators"]) == pack(shared["generators"])


@pytest.mark.slow
def test_the_command_under_torchrun_writes_one_record_and_refuses_what_cannot_be_split(tmp_path):
    flags = ["--stream", "seq-digits", "--images-per-class", "24", "--epochs", "1", "--json"]
    flags += ["--width", "2", "--stages", "2", "--blocks", "1", "--memory", "20"]
    run = [*TORCHRUN, "-m", "bntricks", "run", *flags]
    done = subprocess.run(
        [*run, "--method", "er-bnt"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)  # one object, of one rank
    assert record["config"]["ranks"] == 2
    assert len(list(tmp_path.glob("runs/*/record.json"))) == 1
    again = subprocess.run(
        [*run, "--method", "er-bnt"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert json.loads(again.stdout)["already_there"]
    alone = [sys.executable, "-m", "bntricks", "resume", record["path"]]
    done = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "torchrun --nproc-per-node 2" in done.stderr
    assert "Traceback" not in done.stderr
    refused = subprocess.run(
        [*run, "--method", "icarl"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert refused.returncode != 0
    assert "--method icarl cannot be split" in refused.stderr


class Rank(Team):
    """One of several, with nobody to talk to."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


def test_parts_cover_a_batch_once_and_their_shares_sum_to_one():
    for count in (8, 9, 31):
        whole = Batch(torch.arange(count), torch.arange(count), weight=torch.rand(count))
        parts = [Rank(rank, 3).part(whole) for rank in range(3)]
        assert torch.cat([part.x for part, _ in parts]).tolist() == list(range(count))
        assert sum(share for _, share in parts) == pytest.approx(1)
        mean = sum(share * (p.weight * p.x).sum() / p.weight.sum() for p, share in parts)
        assert mean == pytest.approx(float((whole.weight * whole.x).sum() / whole.weight.sum()))
        assert all(len(part) >= 2 for part, _ in parts)


def test_a_batch_too_small_to_share_goes_to_every_rank():
    few = Batch(torch.arange(5), torch.arange(5))
    assert [Rank(rank, 3).part(few) for rank in range(3)] == [(few, pytest.approx(1 / 3))] * 3


def test_following_the_moments_of_a_batch_is_what_a_forward_does():
    torch.manual_seed(0)
    x = torch.randn(12, 3, 4, 4) * 3 + 1
    for momentum in (0.1, None):
        one, other = nn.BatchNorm2d(3, momentum=momentum), nn.BatchNorm2d(3, momentum=momentum)
        for _ in range(3):
            one(x)
            merged = None
            for part in (x[:5], x[5:]):
                with observed(other) as seen, torch.no_grad():
                    other.track_running_stats = False
                    other(part)
                    other.track_running_stats = True
                merged = seen[""] if merged is None else merged.merge(seen[""])
            assert isinstance(merged, Moments)
            follow(other, {"": merged})
        for name, value in one.state_dict().items():
            torch.testing.assert_close(other.state_dict()[name], value, msg=name)
