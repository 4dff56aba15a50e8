"""The laws of φ: which pass moves it, what may be left out, and who never touches it."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from bntricks.batch import Batch
from bntricks.errors import UserError
from bntricks.methods import entries, make
from bntricks.networks.registry import NETWORKS
from bntricks.networks.resnet import resnet
from bntricks.norm import ema_reach, update_ema
from bntricks.recipes.policies import Policy, Reservoir
from bntricks.runs import train as engine
from bntricks.runs.config import Config
from bntricks.runs.evaluation import evaluate
from bntricks.streams import open_stream
from bntricks.training.learner import Learner
from bntricks.training.step import Draws
from helpers.tiny import batches, network, whole as everything

pytestmark = pytest.mark.law

RECIPES = list(entries())
BALANCING = [name for name in RECIPES if make(name).ema is not None]
APART = [n for n in BALANCING if make(n).tracks_apart and not make(n).reads_ema]


def learner(name, net=None, **more):
    protocol = {"memory_batch": 6, "tasks": 3, "batch": 7}
    return Learner(net or network(), make(name), memory=12, lr=0.1, **protocol, **more)


def after(name, steps):
    """A learner three tasks long, stopped after this many steps, and the batch that comes next."""
    who = learner(name)
    for task in (1, 2, 3):
        x, y = everything(task)
        who.begin([2 * task - 2, 2 * task - 1], x, y)
        for index, (x, y) in enumerate(batches(task)):
            ids = torch.arange(len(y)) + index * len(y)
            if steps == 0:
                return who, Batch(x, y, ids=ids)
            who.observe(x, y, ids=ids)
            steps -= 1
        who.end(*everything(task))
    raise AssertionError("no such step")


def statistics(net):
    return {name: value.clone() for name, value in net.named_buffers()}


def whole(net):
    return {name: value.clone() for name, value in net.state_dict().items()}


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


@pytest.mark.parametrize("steps", [0, 1, 4, 8])
@pytest.mark.parametrize("name", BALANCING)
def test_phi_moves_once_a_step_by_the_ema_batch_alone(name, steps):
    witness, batch = after(name, steps)
    drawn = Draws(witness.state, batch).batch(witness.method.ema)
    if drawn is not None:  # nothing is stored yet
        update_ema(witness.net, drawn.x)

    who, batch = after(name, steps)
    who.observe(batch.x, batch.y, ids=batch.ids)
    assert_equal(statistics(who.net), statistics(witness.net))


@pytest.mark.parametrize("name", [n for n in RECIPES if make(n).ema is None])
def test_without_an_ema_batch_every_forward_moves_phi(name):
    who, batch = after(name, 4)
    before, forwards = statistics(who.net)["1.num_batches_tracked"], who.cost.forwards
    who.observe(batch.x, batch.y, ids=batch.ids)
    moved = statistics(who.net)["1.num_batches_tracked"] - before
    # In the second task GEM looks back at one.
    assert moved == who.cost.forwards - forwards
    assert moved == len(make(name).sources) + (make(name).project is not None)


@pytest.mark.parametrize("name", RECIPES)
def test_the_cost_printed_from_the_recipe_is_what_a_step_takes(name):
    who, batch = after(name, 4)
    before = copy.copy(who.cost)
    who.observe(batch.x, batch.y, ids=batch.ids)
    columns = make(name).columns()
    passes = who.cost.forwards - before.forwards
    tracking = who.cost.tracking_forwards - before.tracking_forwards
    t = 2
    assert (
        passes
        == columns["forwards"] + {"0": 0, "1": 1, "t-1": t - 1}[columns["projection_forwards"]]
    )
    # Where the memory batch is balanced by itself, its own pass does the tracking.
    assert tracking in (columns["tracking_forwards"], 0)


@pytest.mark.parametrize("name", RECIPES)
def test_predictions_leave_every_tensor_and_generator_alone(name):
    who, batch = after(name, 5)
    before, modes = whole(who.net), [m.training for m in who.net.modules()]
    generators = who.state.replay_augmentation.get_state(), torch.get_rng_state()
    who.predict(batch.x)
    assert_equal(before, whole(who.net))
    assert modes == [m.training for m in who.net.modules()]
    assert torch.equal(generators[0], who.state.replay_augmentation.get_state())
    assert torch.equal(generators[1], torch.get_rng_state())


def test_predictions_put_the_mode_back_when_the_network_raises():
    who, batch = after("er", 5)
    with pytest.raises(RuntimeError):
        who.predict(batch.x[:, :-1])
    assert who.net.training


def test_evaluation_leaves_every_tensor_alone():
    stream = open_stream("seq-digits", images_per_class=20)[:2]
    config = Config(method="er-bnt", epochs=1, width=2, blocks=1, stages=2, memory=20)
    who = engine.train(config, stream).learner
    before = whole(who.net), {k: v for k, v in who.memory.state_dict().items() if k != "x"}
    for task in stream:
        evaluate(who, task)
    assert_equal(before[0], whole(who.net))
    assert all(before[1][k] is who.memory.state_dict()[k] for k in ("y", "ids", "tasks"))
    assert who.net.training


def fast_forgetting(*args, **kwargs):
    """A network whose φ forgets in K = 10 steps, so that a short test has much to leave out."""
    net = resnet(*args, **kwargs)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.99
    return net


@pytest.mark.parametrize("name", APART)
def test_deferred_tracking_changes_no_bit_of_a_run(name, monkeypatch):
    monkeypatch.setitem(NETWORKS.entries(), "resnet", fast_forgetting)
    stream = open_stream("seq-digits", images_per_class=20)[:3]
    size = {"batch": 16, "memory_batch": 16, "width": 2, "blocks": 1, "stages": 2, "memory": 30}
    config = Config(method=name, stream="seq-digits", epochs=7, **size)
    deferred = engine.train(config, stream)
    every = engine.train(config, stream, track="every-step")

    steps = every.learner.cost.steps
    assert ema_reach(every.learner.net) == 10
    assert steps >= 3 * 3 * 7
    assert every.learner.cost.tracking_skipped == 0
    assert deferred.learner.cost.tracking_skipped >= steps / 3
    assert_equal(whole(deferred.learner.net), whole(every.learner.net))
    assert deferred.accuracy == every.accuracy
    first, second = deferred.learner.memory.state_dict(), every.learner.memory.state_dict()
    assert torch.equal(first.pop("x"), second.pop("x"))
    assert all(
        torch.equal(torch.as_tensor(first[k]), torch.as_tensor(second[k])) for k in ("y", "ids")
    )


def test_deferred_tracking_is_exact_at_the_usual_momentum_and_with_dropout():
    def train(deferred):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 6))
        who, steps = learner("er-bnt", net), 2 * ema_reach(net) + 10
        for task in (1, 2):
            who.begin([2 * task - 2, 2 * task - 1])
            for left, (x, y) in zip(range(steps, 0, -1), batches(task, steps), strict=True):
                who.observe(x, y, horizon=left if deferred else None)
        return who

    deferred, every = train(True), train(False)
    assert deferred.cost.tracking_skipped > deferred.cost.steps / 3
    assert_equal(whole(deferred.net), whole(every.net))


def test_reading_stale_statistics_is_refused():
    who, batch = after("er-bnt", 4)
    who.observe(batch.x, batch.y, horizon=1000)
    with pytest.raises(RuntimeError, match="horizon"):
        who.predict(batch.x)


def test_statistics_are_stale_until_as_many_steps_were_tracked_as_a_batch_can_be_felt():
    state = after("er-bnt", 4)[0].state
    for since, stale in ((None, False), (0, True), (394, True), (395, False)):
        state.since_skip = since
        assert state.stale == stale


class Evaluating(Policy):
    """Looks at the network in evaluation mode in every step, which only some methods declare."""

    def update(self, state, samples):
        state.net.eval()
        with torch.no_grad():
            state.net(samples.x)
        state.net.train()
        Reservoir().update(state, samples)


def test_evaluating_while_passes_are_owed_is_refused_with_what_to_declare():
    def learned(net=None, **declared):
        method = replace(make("er-bnt"), memory=Evaluating(), **declared)
        who = Learner(net or network(), method, memory=12, memory_batch=6)
        for task in (1, 2):
            who.begin([2 * task - 2, 2 * task - 1])
            for x, y in batches(task):
                who.observe(x, y, horizon=10**6)
        return who

    with pytest.raises(UserError, match=r"declare Method\(reads_ema=True\)"):
        learned()
    assert learned(reads_ema=True).cost.tracking_skipped == 0

    class Frozen(nn.BatchNorm1d):
        """Layers that never leave evaluation mode are owed nothing."""

        def train(self, mode=True):
            return super().train(False)

    frozen = nn.Sequential(nn.Linear(5, 8), Frozen(8), nn.Linear(8, 6))
    assert learned(frozen).cost.tracking_skipped > 0


def test_once_the_owed_passes_are_made_the_network_is_as_it_was():
    net = network()
    net[1].momentum = net[4].momentum = 0.99
    who = learner("er-bnt", net)
    for task in (1, 2):
        who.begin([2 * task - 2, 2 * task - 1])
        for left, (x, y) in zip(range(20, 0, -1), batches(task, 20), strict=True):
            who.observe(x, y, horizon=left)
            if task == 2 and left == 15:
                net.eval()
                with pytest.raises(UserError, match="observe without a horizon"):
                    net(x)
                with pytest.raises(UserError, match="observe without a horizon"):
                    copy.deepcopy(net)(x)
                net.train()
    assert who.cost.tracking_skipped >= 10
    assert not any(layer._forward_pre_hooks for layer in net)
    assert net.eval()(x).shape == (7, 6)


def test_a_method_that_reads_phi_inside_a_task_is_never_deferred():
    who, batch = after("gss-bnt", 4)
    who.observe(batch.x, batch.y, horizon=10**6)
    assert who.cost.tracking_skipped == 0


def test_an_average_that_never_forgets_is_never_deferred():
    net = network()
    net[1].momentum = None
    who = learner("er-bnt", net)
    for task in (1, 2):
        who.begin([2 * task - 2, 2 * task - 1])
        for x, y in batches(task):
            who.observe(x, y, horizon=10**6)
    assert who.cost.tracking_skipped == 0


def test_labels_that_no_task_has_announced_are_refused():
    who = learner("er")
    who.begin([0, 1])
    x = torch.randn(3, 5)
    before = whole(who.net)
    with pytest.raises(ValueError, match=r"labels \[2, 5\]"):
        who.observe(x, torch.tensor([5, 0, 2]))
    assert_equal(whole(who.net), before)
    who.begin([2])
    who.observe(x, torch.tensor([2, 0, 1]))  # old classes may come again


def test_a_task_with_samples_of_other_classes_is_refused_and_can_begin_again():
    who = learner("lwf")
    x, y = everything(1)
    with pytest.raises(ValueError, match=r"labels \[1\]"):
        who.begin([0], x, y)
    who.begin([0, 1], x, y)


def test_a_task_does_not_end_with_samples_of_other_classes():
    who = learner("icarl")
    x, y = everything(1)
    who.begin([0, 1], x, y)
    with pytest.raises(ValueError, match=r"labels \[2, 3\]"):
        who.end(x, y + 2)
    who.end(x, y)
    assert set(who.memory.y[: len(who.memory)].tolist()) == {0, 1}


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_samples_that_are_not_finite_are_refused_and_move_nothing(bad):
    who = learner("icarl")
    x, y = everything(1)
    who.begin([0, 1], x, y)
    who.observe(x, y)
    before = whole(who.net)
    spoilt = x.clone()
    spoilt[1, 2] = bad
    for take in (
        lambda: who.observe(spoilt, y),
        lambda: who.end(spoilt, y),
        lambda: who.predict(spoilt),
    ):
        with pytest.raises(UserError, match="holds NaN, infinity"):
            take()
    assert_equal(whole(who.net), before)
    who.end(x, y)
    assert who.predict(x).shape == y.shape
