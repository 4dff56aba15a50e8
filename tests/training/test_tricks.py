"""`BNTricks` in a loop of one's own: the recipe er-bnt to the bit, whatever is done around it."""

import difflib
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from bntricks import BNTricks, UserError
from bntricks.batch import shuffled
from bntricks.runs.config import Config
from bntricks.runs.resolve import resolve
from bntricks.runs.train import build, train
from bntricks.seeds import Generators
from bntricks.system.pretend import pretend

TINY = {"images_per_class": 30, "memory": 25, "epochs": 2, "width": 4, "blocks": 1, "stages": 2}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6))


def stream(tasks=3, batches=4, size=12):
    """Batches of two classes a task."""
    random = torch.Generator().manual_seed(1)
    for task in range(tasks):
        for _ in range(batches):
            y = torch.randint(2, (size,), generator=random) + 2 * task
            yield torch.randn(size, 5, generator=random) + y[:, None], y


def learn(tricks, batches, lr=0.1):
    optimiser = torch.optim.SGD(tricks.net.parameters(), lr=lr)
    for x, y in batches:
        loss = tricks.step(x, y, cross_entropy)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return bits(tricks.net)


def bits(net):
    return {name: value.clone() for name, value in net.state_dict().items()}


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.reference
def test_a_loop_of_ones_own_ends_in_the_bits_of_bnt_run():
    stream, config = resolve(Config(method="er-bnt", stream="seq-digits", **TINY), None)
    expected = train(config, stream).learner
    fresh, generators = build(config, stream), Generators.of(config.seed)
    net = fresh.net.train()
    tricks = BNTricks(net, memory=25, view=fresh.view, seed=generators)
    for task in stream:
        tricks.begin(task.classes)
        for _ in range(config.epochs):
            ids = shuffled(len(task.train), config.batch, generators.order)
            learn(tricks, ((task.train.x[i], task.train.y[i]) for i in ids), lr=config.lr)
    assert same(bits(net), bits(expected.net))
    assert torch.equal(tricks.memory.x, expected.memory.x)


def test_without_begin_the_classes_of_a_batch_are_the_new_ones():
    tricks = BNTricks(network(), memory=20, batch=8)
    learn(tricks, stream())
    assert tricks.lesson.new == (4, 5)
    assert sorted(tricks.lesson.old) == [0, 1, 2, 3]


def test_phi_moves_once_a_step_and_by_no_other_pass():
    net = network()
    tricks = BNTricks(net, memory=20, batch=8)
    for index, (x, y) in enumerate(stream(), 1):
        tricks.step(x, y, cross_entropy).backward()
        assert net[1].num_batches_tracked == index


def test_it_goes_on_from_its_state_to_the_same_bits():
    batches = list(stream())
    whole = learn(BNTricks(network(), memory=20, batch=8), batches)
    first = BNTricks(network(), memory=20, batch=8)
    learn(first, batches[:5])
    second = BNTricks(network(), memory=20, batch=8, seed=7)
    second.net.load_state_dict(first.net.state_dict())
    second.load_state_dict(first.state_dict())
    assert same(learn(second, batches[5:]), whole)


def test_gradients_accumulate_over_steps():
    net, batches = network(), list(stream())[:2]
    tricks = BNTricks(net, memory=20, batch=8)
    parts = []
    for x, y in batches:
        before = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
        tricks.step(x, y, cross_entropy).backward()
        parts.append(
            [
                p.grad if b is None else p.grad - b
                for p, b in zip(net.parameters(), before, strict=True)
            ]
        )
    for p, first, second in zip(net.parameters(), *parts, strict=True):
        torch.testing.assert_close(p.grad, second + first if first is not p.grad else p.grad)
    assert float(net[0].weight.grad.abs().sum()) > 0


def test_half_precision_is_the_callers_choice():
    net = network()
    tricks = BNTricks(net, memory=20, batch=8)
    for x, y in stream():
        with torch.autocast("cpu", torch.bfloat16):
            loss = tricks.step(x, y, cross_entropy)
        loss.backward()
    assert net[1].running_mean.dtype == torch.float32
    assert all(p.grad.isfinite().all() for p in net.parameters())


def test_a_lone_sample_first_of_all_is_no_step():
    net = network()
    tricks = BNTricks(net, memory=20)
    loss = tricks.step(torch.ones(1, 5), torch.tensor([0]), cross_entropy)
    loss.backward()
    assert loss.item() == 0
    assert net[1].num_batches_tracked == 0
    assert len(tricks.memory) == 1


def test_samples_are_stored_where_the_first_batch_is():
    expected = learn(BNTricks(network(), memory=20, batch=8), stream())
    with pretend("cuda"):
        net = network()
        tricks = BNTricks(net, memory=20, batch=8)  # before the network moves, as frameworks do
        net.to("cuda")
        batches = ((x.to("cuda"), y.to("cuda")) for x, y in stream())
        assert same({k: v.cpu() for k, v in learn(tricks, batches).items()}, expected)
        assert tricks.memory.x.device.type == "cuda"
        kept = BNTricks(net, memory=20, batch=8, device="cpu")
        learn(kept, ((x.to("cuda"), y.to("cuda")) for x, y in list(stream())[:3]))
        assert kept.memory.x.device.type == "cpu"


def test_its_state_is_saved_without_pickled_code(tmp_path):
    tricks = BNTricks(network(), memory=20, batch=8)
    learn(tricks, stream())
    torch.save(tricks.state_dict(), tmp_path / "tricks.pt")
    again = BNTricks(network(), memory=20, batch=8, seed=3)
    again.load_state_dict(torch.load(tmp_path / "tricks.pt", weights_only=True))
    assert torch.equal(again.memory.x, tricks.memory.x)
    assert again.lesson == tricks.lesson
    with pytest.raises(ValueError, match="not one of BNTricks"):
        again.load_state_dict({"memory": {}})


@pytest.fixture
def one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_a_part_of_the_network_that_is_named_module_is_no_wrapper():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.module = nn.BatchNorm1d(5), network()

        def forward(self, x):
            return self.module(self.first(x))

    net = Odd()
    learn(BNTricks(net, memory=20, batch=8), stream(tasks=1))
    assert net.first.num_batches_tracked == net.module[1].num_batches_tracked == 4


@pytest.mark.usefixtures("one_rank")
def test_a_compiled_wrapper_is_seen_through():
    shared = nn.parallel.DistributedDataParallel(network())
    tricks = BNTricks(torch.compile(shared, backend="eager"), memory=20, batch=8)
    learn(tricks, stream(tasks=1))
    assert same(bits(shared.module), learn(BNTricks(network(), memory=20, batch=8), stream(1)))


def test_what_cannot_be_right_is_refused():
    tricks = BNTricks(network())
    tricks.begin([0, 1])
    with pytest.raises(ValueError, match=r"announced labels \[2\]"):
        tricks.step(torch.ones(2, 5), torch.tensor([0, 2]), cross_entropy)
    with pytest.raises(UserError, match="no BatchNorm"):
        BNTricks(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="at least 2"):
        BNTricks(network(), batch=1)
    x, y = torch.ones(2, 5), torch.tensor([0, 1])
    with pytest.raises(UserError, match="NaN"):
        tricks.step(x / 0 - x / 0, y, cross_entropy)
    with pytest.raises(ValueError, match=r"scalar tensor, .* not \[2\]"):
        tricks.step(x, y, lambda logits, y: cross_entropy(logits, y, reduction="none"))
    assert len(tricks.memory) == 0


@pytest.mark.slow
def test_a_compiled_network_is_compiled_once_for_each_kind_of_pass():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    expected = learn(BNTricks(network(), memory=20, batch=8), stream(tasks=3))
    net = network()
    compiled = torch.compile(net, backend=backend)
    batches = list(stream(tasks=3))
    tricks = BNTricks(compiled, memory=20, batch=8)
    learn(tricks, batches[:4])
    assert len(graphs) == 2  # with gradients, and to move φ
    learn(tricks, batches[4:])
    assert len(graphs) == 2
    assert same(bits(net), expected)


ON_TWO = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from bntricks import BNTricks

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6))
shared = DistributedDataParallel(net, broadcast_buffers=sys.argv[1] == "broadcast")
tricks = BNTricks(shared, memory=20, batch=8, seed=dist.get_rank())
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
random = torch.Generator().manual_seed(dist.get_rank())
for task in range(2):
    for _ in range(4):
        y = torch.randint(2, (12,), generator=random) + 2 * task
        loss = tricks.step(torch.randn(12, 5, generator=random) + y[:, None], y, cross_entropy)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
torch.save(net.state_dict(), f"{dist.get_rank()}.pt")
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("buffers", ["broadcast", "kept"])
def test_all_ranks_have_the_same_network_and_phi(tmp_path, buffers):
    script = tmp_path / "on_two.py"
    script.write_text(ON_TWO)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command = [*torchrun, "--master-addr", "127.0.0.1", "--master-port", "29517", script, buffers]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert same(first, second)
    assert first["1.num_batches_tracked"] == 8
    assert float(first["1.running_mean"].abs().sum()) > 0


def test_porting_a_loop_changes_five_lines(request):
    examples = request.config.rootpath / "examples"
    before, after = (
        (examples / name).read_text().splitlines()
        for name in ("replay_loop.py", "replay_loop_with_bn_tricks.py")
    )
    changed = [line[0] + line[2:] for line in difflib.ndiff(before, after) if line[0] in "+-"]
    added = [line for line in changed if line[0] == "+" and line[1:] and line[1:4] != '"""']
    assert len(before) >= 60
    assert len(added) <= 5
    page = (request.config.rootpath / "docs" / "own-loop.md").read_text(encoding="utf-8")
    shown = page.split("```diff\n")[1].split("```")[0].splitlines()
    assert [line for line in shown if line[0] == "+" and line[1:]] == added
    assert {line for line in shown if line[0] == "-"} <= set(changed)
