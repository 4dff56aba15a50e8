"""What a newcomer adds, each in a file of their own: this one. Nothing of the package is edited."""

from dataclasses import dataclass
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bntricks import (
    BM,
    NETWORKS,
    NORMS,
    OPTIMISERS,
    Bt,
    Config,
    Learner,
    Memory,
    Method,
    Model,
    Policy,
    Reservoir,
    ResNet,
    UserError,
    ce,
    loss,
    method,
    run,
    train,
)
from bntricks.methods import entries, find
from bntricks.networks.folded import FOLD_FROM
from bntricks.networks.head import features
from bntricks.runs.metrics import METRICS
from bntricks.runs.record import file as records
from bntricks.runs.resolve import made_with, resolve
from bntricks.training.checkpoint import Checkpoints, digest
from bntricks.training.state import State
from helpers.processes import completed
from helpers.records import a_run
from helpers.tiny import batches, network, whole

SMALL = {"stream": "seq-digits", "images_per_class": 24, "epochs": 1, "width": 8}
SMALL |= {"blocks": 1, "stages": 2, "memory": 20}


@pytest.fixture(autouse=True, scope="module")
def registered():
    """Under names of their own for these tests, and gone after them: others go through them all."""
    before = dict(entries())
    method("test-small-features", title="ER with small features", bnt=True)(small_features)
    method("test-rescaled", title="ER, rescaled")(rescaled)
    method("test-ring", title="ER with a ring", bnt=True)(ring)
    yield
    for name in entries().keys() - before.keys():
        del entries()[name]


# A loss on features.


@loss("Norm", features=True)
def feature_norm(p):
    """Features should be small."""
    assert p.features.shape == (len(p.batch), 8 * 2)
    assert torch.allclose(p.net.linear(p.features), p.logits)
    return p.features.square().mean()


def small_features(weight: float = 1.0) -> Method:
    """ER, and small features of the memory batch."""
    return Method(updates=[ce(Bt | BM) + weight * feature_norm(BM)], memory=Reservoir())


@pytest.mark.parametrize("name", ["test-small-features", "test-small-features-bnt"])
def test_a_loss_may_look_at_features(name, tmp_path):
    with_it = run(Config(method=name, **SMALL), out=tmp_path)
    without = run(Config(method=name, hyper={"weight": 0.0}, **SMALL), out=tmp_path)
    assert with_it.forwards == without.forwards
    assert with_it.digest["network"] != without.digest["network"]


# A normalisation layer.


@NORMS.named("test-gn")
def group_norm(channels):
    return nn.GroupNorm(4, channels)


def test_another_normalisation_is_a_factory_by_name(tmp_path):
    record = run(Config(method="er", norm="test-gn", groups=2, **SMALL), out=tmp_path)
    assert record.config.norm == "test-gn"
    assert record.config.groups is None  # it has no such knob
    assert record.digest != run(Config(method="er", **SMALL), out=tmp_path).digest
    with pytest.raises(UserError, match="unknown normalisation 'test-ng': did you mean test-gn"):
        run(Config(method="er", norm="test-ng", **SMALL), out=tmp_path)


def test_a_resnet_with_another_normalisation_is_not_folded():
    torch.manual_seed(0)
    net = ResNet(4, width=8, blocks=1, stages=2, norm=group_norm)
    x = torch.randn(FOLD_FROM + 1, 3, 8, 8)
    scores = Learner(net, Method(updates=[ce(Bt)])).scores(x)
    with torch.no_grad():
        assert torch.allclose(scores, net.eval()(x), atol=1e-5)


# A network.


@NETWORKS.named("test-flat")
def flat(shape, outputs, *, width, **rest):
    pixels = shape[0] * shape[1] * shape[2]
    return nn.Sequential(
        nn.Flatten(), nn.Linear(pixels, width), nn.BatchNorm1d(width), nn.Linear(width, outputs)
    )


def test_another_network_is_a_builder_by_name(tmp_path):
    record = run(Config(method="icarl-bnt", net="test-flat", **SMALL), out=tmp_path)
    assert record.config.net == "test-flat"


# An optimiser, whose state goes into checkpoints.


@OPTIMISERS.named("test-adam")
class Adam:
    def __init__(self, parameters, lr, decay):
        self.lr = lr
        self.inner = torch.optim.Adam(parameters, lr, weight_decay=decay)
        self.zero_grad, self.step = self.inner.zero_grad, self.inner.step

    def state_dict(self):
        kept = self.inner.state_dict()["state"]
        return {str(index): dict(values) for index, values in kept.items()}

    def load_state_dict(self, state):
        whole = self.inner.state_dict()
        whole["state"] = {int(index): values for index, values in state.items()}
        self.inner.load_state_dict(whole)


class PulledPlugError(Exception):
    pass


def interrupted_after(count, config, stream, folder):
    """Train until so many checkpoints were written, then lose power."""

    class Plug(Checkpoints):
        def save(self, state):
            super().save(state)
            self.saved = getattr(self, "saved", 0) + 1
            if self.saved == count:
                raise PulledPlugError

    with pytest.raises(PulledPlugError):
        train(config, stream, checkpoints=Plug(folder, made_with(config, stream), seconds=0))


def same_bits_after_an_interruption(config, folder, after):
    stream, config = resolve(config, None)
    at_once = train(config, stream)
    interrupted_after(after, config, stream, folder)
    resumed = train(config, stream, checkpoints=Checkpoints(folder, made_with(config, stream)))
    assert resumed.accuracy == at_once.accuracy
    assert digest(resumed.learner.state_dict()) == digest(at_once.learner.state_dict())


def test_an_optimiser_by_name_goes_on_where_it_was(tmp_path):
    config = Config(method="er", optimiser="test-adam", lr=0.001, **SMALL)
    same_bits_after_an_interruption(config, tmp_path, after=7)


# A classifier that is fitted when a task ends, as BiC is: stage and rescoring in one.


@dataclass(frozen=True)
class Rescaled:
    """Scores of the newest classes, scaled so that they are as large as those of the others."""

    fits: Literal["task end"] = "task end"

    def fit(self, state, samples):
        assert samples is not None
        scores = state.net.eval()(state.view(samples.x[:32], None)).detach()
        scale = torch.ones(scores.shape[1])
        if state.lesson.old:
            new, old = list(state.lesson.new), list(state.lesson.old)
            scale[new] = scores[:, old].abs().mean() / scores[:, new].abs().mean()
        return {"scale": scale}

    def scores(self, state, x):
        return state.net(x) * state.fitted["scale"]

    def head(self, state):
        return None

    def __str__(self):
        return "rescaled"


SEEN_BY_STAGES = []


def note(state: State, samples):
    SEEN_BY_STAGES.append((state.lesson.t, samples is not None))


def rescaled() -> Method:
    """ER with corrected scores."""
    return Method(
        updates=[ce(Bt | BM)], memory=Reservoir(), classify=Rescaled(), stages=[note, note]
    )


def test_a_classifier_fitted_when_a_task_ends_survives_an_interruption(tmp_path):
    SEEN_BY_STAGES.clear()
    same_bits_after_an_interruption(Config(method="test-rescaled", **SMALL), tmp_path, after=6)
    assert SEEN_BY_STAGES[:4] == [(1, True), (1, True), (2, True), (2, True)]


def test_it_scores_with_what_it_has_learned():
    net = network()
    learner = Learner(net, rescaled(), memory=12, lr=0.1)
    for task in (1, 2):
        learner.begin([2 * task - 2, 2 * task - 1], *whole(task))
        for x, y in batches(task):
            learner.observe(x, y)
        learner.end(*whole(task))
    with torch.no_grad():
        plain = net.eval()(x)
    assert torch.allclose(learner.scores(x), plain * learner.state.fitted["scale"])
    assert learner.state.fitted["scale"][2:4].ne(1).all()


# A memory policy.


@dataclass(frozen=True)
class Ring(Policy):
    """The newest samples."""

    def update(self, state, samples):
        memory = state.memory
        if memory.filled + len(samples) > memory.capacity:
            memory.keep(torch.arange(memory.filled)[len(samples) :].numpy())
        memory.append(samples, task=state.lesson.t)

    def __str__(self):
        return "the newest"


def ring() -> Method:
    """ER with the newest samples in memory."""
    return Method(updates=[ce(Bt | BM)], memory=Ring())


def test_a_policy_of_ones_own_serves_runs_and_adopted_networks(tmp_path):
    assert run(Config(method="test-ring-bnt", **{**SMALL, "memory": 64}), out=tmp_path).acc > 0
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    old = (torch.randn(20, 5), ["a"] * 10 + ["b"] * 10)
    model = Model.adopt(net, classes=["a", "b"], memory=old, method="test-ring", capacity=12)
    memory: Memory = model.learner.memory
    assert torch.bincount(memory.y[: memory.filled]).tolist() == [6, 6]


# A metric.


def test_a_new_metric_is_there_for_old_records_and_for_claims(tmp_path, monkeypatch):
    old = a_run(final=40.0, r=[[90.0, None], [40.0, 60.0]])
    records.save(old, tmp_path)
    monkeypatch.setitem(METRICS, "worst_task", lambda r: min(r[-1]))
    read = records.load(tmp_path, warn=pytest.fail)
    assert read.metrics["worst_task"] == 40.0
    assert read.value("worst_task") == 40.0


def test_features_are_what_the_head_sees():
    net = network()
    x = torch.randn(9, 5)
    assert torch.equal(net[-1](features(net.eval(), x)), net(x))
    assert F.relu(features(net, x)).equal(features(net, x))


# Names that are taken.


@pytest.mark.parametrize("when", ["before the first lookup", "after it"])
def test_a_script_cannot_replace_what_is_built_in(when, tmp_path):
    script = """
import sys
from bntricks import Bt, Method, UserError, ce, method
from bntricks.methods import find

if sys.argv[1] == "after it":
    find("er")
try:
    method("er", title="Mine")(lambda: Method(updates=[ce(Bt)]))
except UserError as error:
    assert str(error) == "there is a method named 'er' already: choose another name"
    assert find("er").title == "ER"
else:
    raise SystemExit("registered")
"""
    done = completed(when, script=script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_notebook_may_run_a_cell_again():
    for title in ("Mine", "Mine, edited"):
        method("test-cell", title=title)(ring)
        assert find("test-cell").title == title
    with pytest.raises(UserError, match="there is a normalisation named 'bn' already"):
        NORMS.named("bn")(group_norm)
    with pytest.raises(UserError, match="named 'sgd' already"):
        OPTIMISERS.named("sgd")(Adam)
