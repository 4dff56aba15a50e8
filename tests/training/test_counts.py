"""What a step takes, counted: forwards, backward passes, optimiser steps, and tensors. Times depend
on the machine, counts on the recipe alone."""

import gc
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from bntricks.methods import entries, make
from bntricks.training.optimisers import GradientDescent
from helpers.lessons import batches, third_task

FAR = 10**6
PAST = 2
SCORING = {"gss": 2, "gss-bnt": 2}
"""GSS passes new and stored samples once more, each with a gradient of its own."""


def counted(learner, monkeypatch, horizon):
    """What the network, autograd and the optimiser are asked for in one step."""
    found = Counter()
    monkeypatch.setattr(torch.Tensor, "backward", telling(found, torch.Tensor.backward, backward=1))
    monkeypatch.setattr(torch.autograd, "grad", telling(found, torch.autograd.grad, backward=1))
    learner.net.register_forward_hook(lambda *_: found.update(forward=1))
    for teacher in filter(None, (learner.state.teacher, *learner.state.averages.values())):
        teacher.register_forward_hook(lambda *_: found.update(teacher=1))
    monkeypatch.setattr(GradientDescent, "step", telling(found, GradientDescent.step, step=1))
    x, y, ids = batches(3)[1]
    learner.observe(x, y, ids=ids, horizon=horizon)
    monkeypatch.undo()
    return found


def telling(found, function, **what):
    def told(*args, **kwargs):
        found.update(**what)
        return function(*args, **kwargs)

    return told


@pytest.mark.parametrize("name", list(entries()))
def test_a_step_takes_the_passes_its_recipe_names_and_no_more(name, monkeypatch):
    columns, scoring = make(name).columns(), SCORING.get(name, 0)
    projecting = {"0": 0, "1": 1, "t-1": PAST}[columns["projection_forwards"]]
    found = counted(third_task(name), monkeypatch, horizon=None)
    training = columns["forwards"] + projecting + scoring
    assert found["forward"] == training + columns["tracking_forwards"]
    assert found["backward"] == training
    assert found["teacher"] == columns["teacher_forwards"]
    assert found["step"] == len(make(name).updates)


@pytest.mark.parametrize("name", [name for name in entries() if make(name).tracks_apart])
def test_far_from_a_read_the_tracking_forward_is_left_out(name, monkeypatch):
    near = counted(third_task(name), monkeypatch, horizon=1)
    far = counted(third_task(name), monkeypatch, horizon=FAR)
    assert near["forward"] - far["forward"] == (0 if make(name).reads_ema else 1)
    assert near["backward"] == far["backward"]


class Operations(TorchDispatchMode):
    """Counts the operations that make a new tensor."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = {storage(t) for t in torch.utils._pytree.tree_leaves((args, kwargs))}
        out = function(*args, **(kwargs or {}))
        made = {storage(t) for t in torch.utils._pytree.tree_leaves(out)}
        self.count += bool(made - given - {None})
        return out


def storage(value):
    return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else None


def allocations(work):
    with Operations() as operations:
        work()
    return operations.count


def observe(learner, which=1):
    x, y, ids = batches(3)[which]
    learner.observe(x, y, ids=ids, horizon=FAR)


@pytest.mark.parametrize("name", list(entries()))
def test_later_steps_make_no_more_tensors_than_earlier_ones(name):
    gc.freeze()  # what was there before is not looked through again and again
    learner = third_task(name)
    observe(learner)
    early, living = allocations(lambda: observe(learner)), alive()
    for _ in range(10):
        observe(learner)
    late = allocations(lambda: observe(learner))
    # GSS and GEM decide anew what to work out; the balanced batch may need new samples or none.
    assert late <= early + (60 if name in ("gss", "gss-bnt", "gem", "a-gem") else 8)
    assert alive() <= living + 8


def alive():
    gc.collect()
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


def test_er_bnt_makes_few_tensors_besides_those_of_its_two_passes():
    learner = third_task("er-bnt")
    observe(learner)
    net, optimiser = learner.net, learner.state.optimiser
    x, y, _ = batches(3)[1]
    inputs = learner.view(x)

    def passes():
        optimiser.zero_grad()
        for _ in range(2):
            F.cross_entropy(net(inputs), y).backward()
        optimiser.step()

    passes()
    besides = allocations(lambda: observe(learner)) - allocations(passes)
    assert 0 < besides <= 100
