"""No step waits for its device: nothing on it is read by the host. On a CPU nobody would notice, so
a dispatch mode looks at every operation of a step, and a step is made on the device that has no
values at all."""

from contextlib import nullcontext

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bntricks.methods import entries
from bntricks.training.optimisers import GradientDescent
from bntricks.training.state import State
from helpers.lessons import batches, third_task

READS = {"_local_scalar_dense", "item", "nonzero", "masked_select", "is_nonzero", "equal"}
MASKED = {"index", "index_put", "index_put_", "_index_put_impl_"}
WAITING = ("gem", "a-gem", "gss", "gss-bnt")
"""They decide by what they have measured."""
FREE = [name for name in entries() if name not in WAITING]


class Unread(TorchDispatchMode):
    """Raises where the host would wait for a value, or for a count that depends on one."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in READS or (name in MASKED and any(map(is_mask, args[1]))):
            raise AssertionError(f"{name} makes the host wait")
        return function(*args, **(kwargs or {}))


def is_mask(index):
    return index is not None and index.dtype in (torch.bool, torch.uint8)


@pytest.mark.parametrize("horizon", [None, 10**6])
@pytest.mark.parametrize("name", FREE)
def test_a_step_reads_no_value_of_a_tensor(name, horizon):
    learner = third_task(name)
    x, y, ids = batches(3)[1]
    with Unread():
        learner.observe(x, y, ids=ids, horizon=horizon)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        lambda x: float(x[0]),
        lambda x: bool((x > 0).all()),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: x.equal(x),
        lambda x: x.__setitem__(x > 0, torch.zeros(())),
    ],
)
def test_every_kind_of_read_is_noticed(read):
    with Unread(), pytest.raises(AssertionError, match="wait"):
        read(torch.ones(3))


@pytest.fixture
def full_precision(monkeypatch):
    """Autocast knows no meta device, not even to say that it is off."""
    monkeypatch.setattr(State, "arithmetic", lambda state, x: nullcontext())


@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("horizon", [None, 10**6])
@pytest.mark.parametrize("name", FREE)
def test_a_step_needs_nothing_back_from_its_device(name, horizon):
    learner = without_values(third_task(name))
    x, y, ids = batches(3)[1]
    loss = learner.observe(x, y, ids=ids, horizon=horizon)
    assert loss.is_meta


@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("name", WAITING)
def test_those_that_are_exempt_do_need_something_back(name):
    learner = without_values(third_task(name))
    x, y, ids = batches(3)[1]
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        learner.observe(x, y, ids=ids)


def without_values(learner):
    """The learner on the meta device: shapes without values, so that whoever reads one fails."""
    state = learner.state
    learner.device = torch.device("meta")
    state.net.to("meta")
    state.optimiser = GradientDescent(state.net.parameters(), 0.01, 2 * state.method.decay)
    for teacher in filter(None, (state.teacher, *state.averages.values())):
        teacher.to("meta")
    if state.recorded is not None:
        state.recorded = state.recorded.to("meta")
    if state.memory is not None:
        state.memory.device = torch.device("meta")
        state.memory.load_state_dict(state.memory.state_dict())
    return learner
