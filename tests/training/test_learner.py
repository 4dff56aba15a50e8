"""What a learner refuses, and what it says then; what it puts right by itself."""

from functools import partial

import pytest
import torch
from torch import nn

from bntricks import Learner, UserError, make
from helpers.tiny import batches, network, whole

pytestmark = pytest.mark.law


def test_a_class_beyond_the_head_is_refused_before_anything_changes():
    learner = Learner(network(), make("er-bnt"))
    with pytest.raises(ValueError, match=r"class 6 is beyond the head's 6 outputs: call grow\(7\)"):
        learner.begin([5, 6])
    with pytest.raises(ValueError, match="class 7 is beyond"):
        learner.begin([5], visitors=[7])
    assert learner.state.lesson.t == 0
    learner.grow(7)
    learner.begin([5, 6])
    free = Learner(network(), make("er-bnt"), task_free=True)
    with pytest.raises(ValueError, match="class 6 is beyond the head's 6 outputs"):
        free.observe(torch.randn(2, 5), torch.tensor([0, 6]))
    assert free.state.lesson.t == 0


def test_a_head_need_not_be_a_linear_layer():
    net = nn.Sequential(
        nn.Conv1d(5, 6, 1), nn.BatchNorm1d(6), nn.AdaptiveAvgPool1d(1), nn.Flatten()
    )
    learner = Learner(net, make("er-bnt"))
    learner.begin([0, 1])
    assert learner.observe(torch.randn(4, 5, 3), torch.arange(4) % 2).isfinite()


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_labels_may_be_integers_of_any_kind(kind):
    usual, other = (Learner(network(), make("icarl-bnt"), memory=12) for _ in range(2))
    for task in (1, 2):
        for learner, as_given in ((usual, torch.int64), (other, kind)):
            x, y = whole(task)
            learner.begin([2 * task - 2, 2 * task - 1], x, y.to(as_given))
            learner.observe(x, y.to(as_given))
            learner.end(x, y.to(as_given))
    for name, value in usual.net.state_dict().items():
        assert torch.equal(other.net.state_dict()[name], value), name


def test_labels_that_are_not_integers_are_refused():
    learner = Learner(network(), make("icarl"), memory=12)
    x, y = whole(1)
    learner.begin([0, 1])
    with pytest.raises(ValueError, match=r"labels are class numbers, and these are torch.float32"):
        learner.observe(x, y.float())
    with pytest.raises(ValueError, match="give integers"):
        learner.end(x, y.float())


def test_a_network_that_was_evaluated_within_a_task_goes_on_in_training_mode():
    plain, evaluated = (Learner(network(), make("er-bnt"), memory=12) for _ in range(2))
    for learner in (plain, evaluated):
        learner.begin([0, 1])
        for x, y in batches(1):
            learner.observe(x, y)
            if learner is evaluated:
                learner.net.eval()
    for name, value in plain.net.state_dict().items():
        assert torch.equal(evaluated.net.state_dict()[name], value), name


def test_layers_that_somebody_freezes_within_a_task_stay_so():
    learner = Learner(network(), make("er"))
    learner.begin([0, 1])
    learner.net[1].eval()
    learner.observe(*whole(1))
    assert not learner.net[1].training


def test_a_teacher_whose_head_was_smaller_comes_back_from_a_snapshot():
    learner, other = (Learner(network(), make("icarl"), memory=12, lr=0.1) for _ in range(2))
    learner.begin([0, 1], *whole(1))
    learner.observe(*whole(1))
    learner.end(*whole(1))
    for each in (learner, other):
        each.grow(8)
    learner.begin([2, 3], *whole(2))
    other.load_state_dict(learner.state_dict())
    assert other.state.teacher[-1].out_features == 6
    assert torch.equal(learner.observe(*whole(2)), other.observe(*whole(2)))


@pytest.mark.parametrize(
    ("method", "call"), [("lwf", r"begin\(classes, x, y\)"), ("icarl", r"end\(x, y\)")]
)
def test_the_call_that_lacks_the_tasks_samples_is_named(method, call):
    learner = Learner(network(), make(method), memory=12)
    lacking = learner.end
    if method == "lwf":
        lacking = partial(learner.begin, [0, 1])
    else:
        learner.begin([0, 1])
    with pytest.raises(ValueError, match=f"this method needs the task's samples: {call}"):
        lacking()


def test_lwf_says_that_it_has_to_know_which_samples_a_batch_has():
    learner = Learner(network(), make("lwf"))
    for task in (1, 2):
        learner.begin([2 * task - 2, 2 * task - 1], *whole(task))
        if task == 1:
            learner.observe(*whole(task))
            learner.end()
    with pytest.raises(ValueError, match=r"LwF needs observe\(x, y, ids=\.\.\.\)"):
        learner.observe(*whole(2))


def test_icarl_names_a_class_that_has_no_samples_and_keeps_its_memory():
    learner = Learner(network(), make("icarl"), memory=12)
    learner.begin([0, 1, 4])
    learner.observe(*whole(1))
    with pytest.raises(ValueError, match="class 4 has no samples to keep"):
        learner.end(*whole(1))
    assert len(learner.memory) == 0


@pytest.mark.parametrize("method", ["er", "er-bnt", "icarl-bnt", "der++", "a-gem", "er-cur+prev"])
def test_replayed_batches_of_one_sample_are_refused(method):
    with pytest.raises(UserError, match=r"^memory_batch 1: .* make it 2 or more"):
        Learner(network(), make(method), memory=12, memory_batch=1, tasks=3)


@pytest.mark.parametrize("method", ["sgd", "lwf", "icarl", "gem"])
def test_who_draws_no_such_batch_does_not_care_about_its_size(method):
    Learner(network(), make(method), memory=12, memory_batch=1, tasks=3)


def test_gem_needs_two_samples_of_each_task():
    with pytest.raises(UserError, match=r"^memory 9: .* there are 5: make it 10 or more"):
        Learner(network(), make("gem"), memory=9, tasks=5)
    Learner(network(), make("gem"), memory=10, tasks=5)
    Learner(network(), make("a-gem"), memory=5, tasks=5)  # it draws from all tasks at once


@pytest.mark.parametrize("method", ["gem", "a-gem"])
def test_who_shares_out_the_memory_in_advance_needs_the_number_of_tasks_and_keeps_to_it(method):
    with pytest.raises(UserError, match=r"^tasks: .* say how many tasks there will be"):
        Learner(network(), make(method), memory=12)
    learner = Learner(network(), make(method), memory=12, tasks=1)
    learner.begin([0, 1])
    learner.observe(*whole(1))
    learner.end(*whole(1))
    with pytest.raises(UserError, match=r"^tasks 1: the memory is shared out among 1 tasks"):
        learner.begin([2, 3])
    assert learner.state.lesson.t == 1
