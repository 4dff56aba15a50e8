"""What dropout and a user's own code draw from global generators, in a training."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn

from bntricks import NETWORKS, Config, Model, open_stream, train
from bntricks.batch import Batch
from bntricks.methods import make
from bntricks.norm import ema_reach
from bntricks.recipes.language import BM, Bb, Bt, Method
from bntricks.recipes.losses import ce, loss
from bntricks.recipes.policies import Policy, Reservoir
from bntricks.system.pretend import pretend
from bntricks.training import randomness
from bntricks.training.learner import Learner
from bntricks.training.readings import Readings
from helpers.tiny import batches, network, whole

pytestmark = pytest.mark.law

DRAWING_OTHERWISE = ("gem", "a-gem", "fdr", "lwf", "icarl-bnt", "gss", "joint", "er-recalibrate")
"""Methods that pass images through the network elsewhere than for their losses, too."""
NUMPY = np.random
"""Its global generator, which code of one's own may use."""


class Noise(nn.Module):
    """Draws from all global generators there are, in training mode and in evaluation mode."""

    def forward(self, x):
        return x * (1 + 0.1 * random.random()) + 0.1 * NUMPY.rand() + 0.1 * torch.rand_like(x)


def noisy_network():
    torch.manual_seed(7)
    net = nn.Sequential(
        *(nn.Linear(5, 8), Noise(), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3)),
        *(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 6)),
    )
    net[2].momentum = net[6].momentum = 0.99  # φ forgets in ten steps
    return net


def noisy(name="er-bnt", **more):
    method = make(name) if isinstance(name, str) else name
    protocol = {"memory": 12, "memory_batch": 6, "tasks": 3, "batch": 7, "lr": 0.1}
    return Learner(noisy_network(), method, **protocol, **more)


def learn(who, tasks=(1, 2), steps=20, *, deferred=False):
    for task in tasks:
        who.begin([2 * task - 2, 2 * task - 1], *whole(task))
        ids = torch.arange(7)
        for left, (x, y) in zip(range(steps, 0, -1), batches(task, steps), strict=True):
            who.observe(x, y, ids=ids, horizon=left if deferred else None)
        who.end(*whole(task))
    return who


def tensors(who):
    stored = {} if who.memory is None else {"memory": who.memory.y}
    return {**who.net.state_dict(), **stored}


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


def global_states():
    return random.getstate(), str(NUMPY.get_state()), torch.get_rng_state().tolist()


def scramble():
    random.seed()
    NUMPY.seed()
    torch.seed()


@pytest.mark.parametrize("name", ["er-bnt", "cls-er", *DRAWING_OTHERWISE])
def test_a_training_makes_the_same_bits_twice_and_gives_the_generators_back(name):
    scramble()
    who, before = noisy(name), global_states()
    first = tensors(learn(who))
    assert global_states() == before
    scramble()
    assert_equal(first, tensors(learn(noisy(name))))


def test_the_seed_and_the_step_decide_what_is_dropped():
    first, other = learn(noisy()), learn(noisy(seed=1))
    assert not torch.equal(first.net[0].weight, other.net[0].weight)
    who = noisy("sgd")
    who.begin([0, 1])
    drawn = []
    who.net[4].register_forward_hook(lambda layer, x, y: drawn.append(y == 0))
    (x, y), *_ = batches(1)
    for _ in range(2):
        who.observe(x, y)
    assert len(drawn) == 2
    assert not torch.equal(*drawn)


@pytest.mark.parametrize("name", ["er-bnt", "der++-bnt", "er-balance-joint-train"])
def test_a_pass_that_is_left_out_shifts_no_other(name):
    every, deferred = learn(noisy(name)), learn(noisy(name), deferred=True)
    assert ema_reach(every.net) == 10
    assert deferred.cost.tracking_skipped >= 10
    assert_equal(tensors(every), tensors(deferred))


def test_readings_shift_no_pass_and_drop_out_what_their_own_training_would():
    alone = learn(noisy("er-cur+buf"))
    with_it = noisy("er-cur+buf")
    reader = Readings(with_it, {"er-track-memory": make("er-track-memory")})
    learn(with_it)
    assert_equal(tensors(alone), tensors(with_it))
    own = learn(noisy("er-track-memory")).net
    read = reader.read_by("er-track-memory").net
    # In its own training φ of the first task follows the current batch, which alone is there.
    for name in ("2.running_mean", "6.running_var"):
        torch.testing.assert_close(read.state_dict()[name], own.state_dict()[name])


def test_what_was_interrupted_goes_on_to_the_same_bits():
    whole_run = learn(noisy())
    first = learn(noisy(), tasks=[1])
    x, y = whole(2)
    first.begin([2, 3], x, y)
    steps = list(batches(2, 20))
    for x, y in steps[:7]:
        first.observe(x, y, ids=torch.arange(7))
    scramble()
    second = noisy(seed=5)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for x, y in steps[7:]:
        second.observe(x, y, ids=torch.arange(7))
    second.end(*whole(2))
    assert_equal(tensors(whole_run), tensors(second))


def test_a_model_draws_the_same_after_its_file_was_read(tmp_path):
    def taught(between):
        torch.manual_seed(3)
        net = nn.Sequential(
            *(nn.Flatten(), nn.Linear(48, 8), nn.BatchNorm1d(8), nn.Dropout(0.4)),
            nn.Linear(8, 2),
        )
        generator = torch.Generator().manual_seed(1)
        photos = {
            name: torch.rand(20, 3, 4, 4, generator=generator) for name in ("a", "b", "c", "d")
        }
        memory = {name: photos[name] for name in ("a", "b")}
        model = Model.adopt(net, classes=["a", "b"], memory=memory)
        model.learn({"c": photos["c"]}, epochs=2)
        scramble()
        model = between(model, net)
        model.learn({"d": photos["d"]}, epochs=2)
        return model.net.state_dict()

    def through_a_file(model, net):
        model.save(tmp_path / "model.safetensors")
        return Model.load(tmp_path / "model.safetensors", net=net)

    assert_equal(taught(lambda model, net: model), taught(through_a_file))


def drawing_view(x, generator=None):
    return x + 0.01 * torch.rand(5)


@loss("Drawing")
def drawing_loss(p):
    return ce.of(p) * NUMPY.uniform(0.5, 1.5)


class Forgetful(Policy):
    def update(self, state, samples):
        if random.random() < 0.5:
            Reservoir().update(state, samples)


@pytest.mark.parametrize(
    ("method", "more"),
    [
        (make("er-bnt"), {"view": drawing_view}),
        (Method(updates=[drawing_loss(Bt) + ce(BM)], ema=Bb, memory=Reservoir()), {}),
        (Method(updates=[ce(Bt) + ce(BM)], ema=Bb, memory=Forgetful()), {}),
    ],
)
def test_code_of_ones_own_may_draw_too(method, more):
    def taught(*, deferred):
        scramble()
        net = network()
        net[1].momentum = net[4].momentum = 0.99
        who = Learner(net, method, memory=12, memory_batch=6, lr=0.1, **more)
        return tensors(learn(who, deferred=deferred))

    assert_equal(taught(deferred=False), taught(deferred=True))


def test_a_run_of_a_network_that_draws_is_the_same_twice_and_however_it_is_tracked(monkeypatch):
    def build(shape, outputs, *, width, norm):
        layers = nn.Conv2d(shape[0], width, 3, 2), Noise(), norm(width), nn.Dropout2d(0.2)
        pooled = nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, outputs)
        return nn.Sequential(*layers, nn.ReLU(), *pooled)

    monkeypatch.setitem(NETWORKS.entries(), "drawing", build)
    stream = open_stream("seq-digits", images_per_class=24)[:3]
    config = Config(method="er-bnt", net="drawing", width=4, momentum=0.99, memory=20, epochs=8)
    outcomes = []
    for how in ({}, {}, {"track": "every-step"}, {"readings": True}):
        scramble()
        outcomes.append(train(config, stream, **how))
    assert outcomes[0].learner.cost.tracking_skipped > 0
    for other in outcomes[1:]:
        assert_equal(tensors(outcomes[0].learner), tensors(other.learner))
        assert other.accuracy == outcomes[0].accuracy


def test_what_is_drawn_after_an_inner_part_does_not_depend_on_how_much_that_drew():
    parts = randomness.Randomness(torch.Generator().manual_seed(3))

    def drawn(inside):
        with parts.part("outer", torch.device("cpu")):
            with parts.part("inner", torch.device("cpu")):
                torch.rand(inside)
            return torch.rand(3)

    assert torch.equal(drawn(1), drawn(5))


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_devices_generator_is_seeded_for_each_pass_and_comes_back(kind):
    with pretend(kind) as gpu:
        who = noisy(device=kind)
        for task in (1, 2):
            who.begin([2 * task - 2, 2 * task - 1])
            for x, y in batches(task):
                before, gpu.seeded.call_count = torch.get_rng_state(), 0
                who.observe(x, y)
                assert torch.equal(torch.get_rng_state(), before)
        assert gpu.seeded.call_count >= 2  # the passes of the current and of the memory batch


def test_where_nothing_can_draw_nothing_is_seeded(monkeypatch):
    def seeded(*_):
        raise AssertionError("a generator was seeded in a step")

    who = Learner(network(), make("er-bnt"), memory=12, memory_batch=6)
    for task in (1, 2):
        who.begin([2 * task - 2, 2 * task - 1])
        with monkeypatch.context() as patched:
            patched.setattr(randomness, "seed_globally", seeded)
            patched.setattr(randomness, "borrowed_generators", seeded)
            for x, y in batches(task):
                who.observe(x, y, horizon=1)
    who.net[2].register_forward_hook(lambda layer, x, y: None)
    monkeypatch.setattr(randomness, "borrowed_generators", seeded)
    with pytest.raises(AssertionError, match="seeded"):
        who.observe(x, y)


@pytest.mark.parametrize(
    "layer",
    [nn.Dropout(0.1), nn.RReLU(), Noise(), nn.MultiheadAttention(8, 2), nn.LSTM(8, 8)],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_that_may_draw_are_known(layer):
    assert randomness.networks_draw([nn.Linear(2, 2), layer])
    assert not randomness.networks_draw([nn.Linear(2, 2), nn.ReLU()])


def test_a_batch_is_drawn_alike_whoever_asks_first():
    """The generators of a part do not depend on what was drawn before it."""
    who = learn(noisy(view=drawing_view), tasks=[1])
    who.begin([2, 3])
    x, y = next(iter(batches(2)))
    from bntricks.training.step import Draws

    state, memory = who.state, who.generators.memory_sampling.get_state()
    state.randomness.outside = True
    first = Draws(state, Batch(x, y)).batch(BM).x
    who.generators.memory_sampling.set_state(memory)
    draws = Draws(state, Batch(x, y))
    torch.rand(3)
    assert torch.equal(draws.batch(BM).x, first)
