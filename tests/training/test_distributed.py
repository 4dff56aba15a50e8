"""One run on two ranks: real processes, started by torchrun, that talk through gloo."""

import json
import subprocess
import sys
from collections import Counter

import pytest
import torch
from torch import nn

from bntricks.batch import Batch
from bntricks.errors import UserError
from bntricks.norm import Moments, follow, observed
from bntricks.runs.config import Config
from bntricks.runs.resolve import resolve
from bntricks.runs.train import train
from bntricks.system.pretend import pretend
from bntricks.training import distributed
from bntricks.training.checkpoint import pack, unpack
from bntricks.training.distributed import Team
from helpers.lessons import batches, third_task

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
LITTLE = {"width": 2, "stages": 2, "blocks": 1, "images_per_class": 24, "memory": 20, "epochs": 1}
LITTLE["batch"] = 9  # does not split evenly
ON_TWO = """
import json, os, sys
import torch
from torch import nn
from bntricks.networks.registry import NETWORKS
from bntricks.training.checkpoint import pack
from bntricks.runs.config import Config
from bntricks.runs.train import train
from bntricks.runs.resolve import resolve
from bntricks.training.distributed import joined, launched

@NETWORKS.named("dropping")
def dropping(shape, outputs, *, width, norm, **_):
    layers = nn.Conv2d(shape[0], width, 3, 2), nn.Dropout(0.3), norm(width), nn.ReLU()
    pooled = nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, outputs)
    return nn.Sequential(*layers, *pooled)

rank, size = launched()
with joined(size, "cpu") as ranks:
    for name, method, synchronised in json.loads(sys.argv[1]):
        how = dict(ranks=size, synchronised=synchronised, **json.loads(sys.argv[2]))
        if name.startswith("dropping"):
            how = {k: v for k, v in how.items() if k not in ("stages", "blocks")}
            how["net"] = "dropping"
        stream, config = resolve(Config(method=method, stream="seq-digits", **how), None)
        track = "every-step" if name.endswith("every") else "deferred"
        outcome = train(config, stream, ranks=ranks, track=track)
        state = {"state": outcome.learner.state_dict(), "accuracy": outcome.accuracy}
        open(f"{name}.{rank}", "wb").write(pack(state))
"""
METHODS = ["sgd", "er", "er-bnt", "er-balance-batch", "der++", "der++-bnt"]


@pytest.fixture(scope="module")
def on_two_ranks(tmp_path_factory):
    """Final states by name and rank: each method with statistics of its own and of all ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    jobs = [(f"{m}-{s}", m, s) for m in METHODS for s in (False, True)]
    jobs += [(f"dropping-{kind}", "er-bnt", False) for kind in ("once", "again", "every")]
    script = folder / "on_two.py"
    script.write_text(ON_TWO)
    command = [*TORCHRUN, script, json.dumps(jobs), json.dumps(LITTLE)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return lambda name, rank: unpack((folder / f"{name}.{rank}").read_bytes())


@pytest.mark.slow
def test_with_dropout_two_ranks_agree_and_come_to_the_same_bits_again(on_two_ranks):
    once = on_two_ranks("dropping-once", 0)
    for other in (on_two_ranks("dropping-once", 1), on_two_ranks("dropping-again", 0)):
        assert pack(other) == pack(once)
    every = on_two_ranks("dropping-every", 0)
    for name, value in once["state"]["net"].items():
        assert torch.equal(value, every["state"]["net"][name])
    assert every["accuracy"] == once["accuracy"]


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
    assert "split over 2 processes, not 1: ask for 2 (--ranks)" in done.stderr
    assert "Traceback" not in done.stderr
    refused = subprocess.run(
        [*run, "--method", "icarl"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert refused.returncode != 0
    assert "--method icarl: this method cannot be split" in refused.stderr


class Messages:
    """`torch.distributed` among ranks that all have the same to say; counts what they send."""

    def __init__(self):
        self.sent = Counter()

    def all_reduce(self, tensor):
        self.sent["sums"] += 1

    def all_gather(self, received, sent):
        self.sent["gathered"] += 1
        for each in received:
            each.copy_(sent)

    def get_rank(self):
        return 0

    def get_world_size(self):
        return 2


@pytest.fixture
def messages(monkeypatch):
    messages = Messages()
    monkeypatch.setattr(distributed, "dist", messages)
    return messages


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


@pytest.mark.parametrize("method", ["sgd", "er-bnt", "der++"])
def test_every_rank_counts_the_images_of_the_whole_batch(messages, method):
    costs = []
    for rank in (0, 1):
        learner = third_task(method)
        learner.state.ranks = Rank(rank, 2)
        before = learner.cost.images
        x, y, ids = batches(3)[1]
        learner.observe(x[:5], y[:5], ids=ids[:5])  # two and three
        costs.append(learner.cost.images - before)
    alone = third_task(method)
    before = alone.cost.images
    alone.observe(x[:5], y[:5], ids=ids[:5])
    assert costs == [alone.cost.images - before] * 2


def test_a_step_sends_its_moments_at_once_and_its_gradients_at_once(messages):
    with pretend("cuda") as gpu:
        learner = third_task("er-bnt", device="cuda")
        learner.state.ranks = Rank(0, 2)
        x, y, ids = batches(3)[1]
        x = x.to("cuda")
        gpu.waits.clear()
        learner.observe(x, y, ids=ids)
    # Besides, the outputs that a memory may keep, and the loss.
    assert messages.sent == {"gathered": 1, "sums": 3}
    assert not gpu.waits


def test_a_synchronised_layer_sends_once_each_way(messages):
    torch.manual_seed(0)
    x = torch.randn(6, 3, 4, 4, requires_grad=True)
    plain, synchronised = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    distributed.synchronise(synchronised)
    out = synchronised(x)
    torch.testing.assert_close(out, plain(x))  # equal parts have the moments of the whole
    out.square().sum().backward()
    assert messages.sent == {"gathered": 1, "sums": 1}


def test_synchronised_sums_of_bfloat16_are_taken_in_float32(messages):
    layer = nn.BatchNorm1d(1, affine=False)
    distributed.synchronise(layer)
    x = 256 + 2 * (torch.arange(4096)[:, None] % 2).bfloat16()  # whose mean bfloat16 does not have
    out = layer(x)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float().mean(), torch.tensor(0.0), atol=1e-3, rtol=0)
    torch.testing.assert_close(out.float().std(), torch.tensor(1.0), atol=1e-2, rtol=0)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"compile": True}, "compiled passes"),
        ({"device": "cuda:1"}, "do not share one GPU"),
        ({"device": "mps"}, "do not share one GPU"),
        ({"device": "cuda"}, "there are 3 processes here, and 2 GPUs"),
    ],
)
def test_ranks_that_would_get_it_wrong_are_refused_in_a_line(monkeypatch, change, line):
    for name, value in {
        "TORCHELASTIC_RUN_ID": "1",
        "RANK": "0",
        "WORLD_SIZE": "3",
        "LOCAL_WORLD_SIZE": "3",
    }.items():
        monkeypatch.setenv(name, value)
    config = Config(method="er-bnt", stream="seq-digits", ranks=3, **change)
    kind = "mps" if config.device == "mps" else "cuda"
    with pretend(kind, count=2), pytest.raises(UserError, match=line):
        resolve(config, None)


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
            follow(other, {"": (merged.mean, merged.var)})
        for name, value in one.state_dict().items():
            torch.testing.assert_close(other.state_dict()[name], value, msg=name)


@pytest.mark.parametrize("count", [5, 8], ids=["whole on every rank", "split"])
def test_a_batch_moves_phi_as_on_one_device_whether_it_is_split_or_not(monkeypatch, count):
    torch.manual_seed(0)
    x, ranks = torch.randn(count, 3, 2, 2), [Rank(rank, 3) for rank in range(3)]
    sent = []
    for rank in ranks:
        part, _ = rank.part(Batch(x, torch.arange(count)))
        with observed(layer := nn.BatchNorm2d(3)) as seen:
            layer(part.x)
        [own] = seen.values()
        sent.append(torch.stack([torch.full_like(own.mean, own.count), own.mean, own.var]))

    def all_gather(received, own):
        for each, message in zip(received, sent, strict=True):
            each.copy_(message)

    monkeypatch.setattr(distributed.dist, "all_gather", all_gather)
    alone, shared = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    alone(x)
    part, _ = ranks[1].part(Batch(x, torch.arange(count)))
    with ranks[1].tracking(shared, count):
        shared(part.x)
    for name, value in alone.state_dict().items():
        torch.testing.assert_close(shared.state_dict()[name], value, msg=name)
