"""The pretended device itself: it refuses what a real one refuses, and counts what would wait."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bntricks.system.pretend import pretend


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_tensors_say_where_they_are_and_results_stay_there(kind):
    with pretend(kind):
        x = torch.ones(2, 3).to(kind)
        made = [x * 2, x.sum(), x.new_zeros(4), torch.zeros(2, device=kind), x[:1], x.clone()]
        assert {tensor.device for tensor in made} == {torch.device(kind, 0)}
        assert {tensor.device.type for tensor in (x.cpu(), torch.zeros(2))} == {"cpu"}
        assert copy.deepcopy(x).device.type == kind
    assert x.device.type == "cpu"  # the pretence is over


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_network_moves_with_its_gradients(kind):
    with pretend(kind):
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(kind)
        net(torch.randn(5, 3, device=kind)).sum().backward()
        tensors = [*net.parameters(), *net.buffers(), *(p.grad for p in net.parameters())]
        assert {tensor.device.type for tensor in tensors} == {kind}


def test_numbers_are_those_of_the_cpu():
    torch.manual_seed(0)
    net, x, y = nn.Linear(3, 2), torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    plain = F.cross_entropy(net(x), y)
    with pretend("cuda"):
        assert F.cross_entropy(net.to("cuda")(x.cuda()), y.cuda()).item() == plain.item()


def test_two_devices_do_not_mix():
    with pretend("cuda"):
        here, there = torch.ones(3), torch.ones(3, device="cuda")
        for mixed in (
            lambda: here + there,
            lambda: torch.cat([here, there]),
            lambda: here[there.long()],
            lambda: there.index_copy_(0, torch.tensor([0]), there[:1]),
            lambda: here.lerp_(there, 0.5),
        ):
            with pytest.raises(RuntimeError, match="device"):
                mixed()
        assert (there + torch.tensor(2.0)).device.type == "cuda"  # no dimensions
        assert there[torch.tensor([0, 2])].device.type == "cuda"


def test_a_device_tensor_is_no_array():
    with pretend("mps"):
        x = torch.ones(2, device="mps")
        with pytest.raises(TypeError, match="numpy"):
            x.numpy()
        assert x.cpu().numpy().tolist() == x.numpy(force=True).tolist() == [1, 1]


def test_mps_has_no_float64():
    with pretend("mps"):
        x = torch.ones(2, device="mps")
        for doubled in (
            lambda: x.double(),
            lambda: x.to("cpu", torch.float64),
            lambda: x.sum(dtype=torch.float64),
            lambda: torch.zeros(2, dtype=torch.float64, device="mps"),
            lambda: torch.zeros(2, dtype=torch.float64).to("mps"),
        ):
            with pytest.raises(TypeError, match="float64"):
                doubled()
        assert x.cpu().double().dtype == torch.float64


def test_what_torch_gets_wrong_on_mps_is_refused():
    with pretend("mps"):
        with pytest.raises(AssertionError, match="freed memory"):
            torch.ones(2).to("mps", non_blocking=True)
        x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
        with pytest.raises(AssertionError, match="channels_last"):
            nn.BatchNorm2d(3).to("mps")(x.to("mps"))


WAITING = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "a condition": lambda x: bool((x > 0).any()),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "nonzero": lambda x: x.nonzero(),
    "a mask": lambda x: x[x > 0],
    "indices from the host": lambda x: x[torch.tensor([0])],
    "a blocking copy": lambda x: torch.ones(2).to(x.device),
    "unpinned memory": lambda x: torch.ones(2).to(x.device, non_blocking=True),
    "a pinned copy that blocks": lambda x: torch.ones(2).pin_memory().to(x.device),
    "a tensor of numbers": lambda x: torch.tensor([1, 2], device=x.device),
    "copy_ from the host": lambda x: x.copy_(torch.ones(3)),
}


@pytest.mark.parametrize("what", list(WAITING))
def test_what_waits_for_the_device_is_counted(what):
    with pretend("cuda") as gpu:
        x = torch.zeros(3, device="cuda")
        assert not gpu.waits
        WAITING[what](x)
        assert sum(gpu.waits.values()) == 1


def test_what_does_not_wait_is_not_counted():
    with pretend("cuda") as gpu:
        x = torch.ones(2).pin_memory().to("cuda", non_blocking=True)
        torch.where(x > 0, x, 0.0).softmax(0)[torch.arange(2, device="cuda")].add_(1)
        torch.full((), -1, device="cuda")
    assert not gpu.waits


def test_waits_are_counted_by_source_line():
    from bntricks.training.progress import Progress

    with pretend("cuda") as gpu:
        progress = Progress(lambda event: None, total=1)
        progress.step(torch.zeros((), device="cuda"), task=1)
        assert not gpu.waits
        progress.check()
    [line] = gpu.waits
    assert line.startswith("training/progress.py:")


def test_what_is_pickled_from_a_device_is_counted():
    with pretend("cuda") as gpu:
        net = nn.BatchNorm1d(2)
        pickle.dumps(net)
        assert gpu.pickled == 0
        pickle.dumps(net.to("cuda"))
        assert gpu.pickled == len(net.state_dict())
