"""A network trained by hand, in plain PyTorch, goes on with this package."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from bntricks import Learner, Model, UserError
from bntricks.errors import RunError
from bntricks.streams import View
from helpers.colours import FIRST, SECOND, pictures, write_folder

VIEW = View((0.5, 0.5, 0.5), (0.3, 0.3, 0.3))
OLD = {name: pictures(name) for name in FIRST}
MORE = {name: pictures(name) for name in SECOND}


def hear(event):
    """Somebody else's progress."""


def build():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 3)
    )


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    net = build().train()
    x = torch.cat([torch.from_numpy(part) for part in OLD.values()])
    y = torch.arange(3).repeat_interleave(12)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(VIEW(x)), y).backward()
        optimiser.step()
    return net.eval()


def adopt(net, **more):
    return Model.adopt(net, **{"classes": FIRST, "memory": OLD, "view": VIEW} | more)


def test_an_adopted_network_answers_as_before_by_name_and_stays_its_owners(trained):
    before = {name: value.clone() for name, value in trained.state_dict().items()}
    adopted = adopt(trained)
    x = torch.from_numpy(pictures("grün", 5, seed=2))
    assert adopted.predict(x) == [FIRST[k] for k in trained(VIEW(x)).argmax(1)]
    assert torch.equal(adopted.predict_proba(x), trained(VIEW(x)).softmax(1))
    adopted.learn(MORE, epochs=1, sink=hear)
    for name, value in trained.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    "method", ["er-bnt", "der++-bnt", "icarl-bnt", "fdr", "gss", "gem", "lwf", "icarl"]
)
def test_it_learns_new_classes_by_any_method(trained, method):
    tasks = {"tasks": 2} if method == "gem" else {}
    aside = {name: pictures(name, seed=5) for name in FIRST}
    adopted = adopt(trained, method=method, capacity=30, test=aside, batch=8, **tasks)
    memory = adopted.learner.memory
    if memory is not None:
        most = 15 if method == "gem" else 10
        assert torch.bincount(memory.y[: memory.filled]).max() <= most
    found = adopted.learn(MORE, epochs=8, sink=hear)
    assert adopted.classes == (*FIRST, *SECOND)
    assert adopted.groups == (FIRST, SECOND)
    assert found.tasks[0].before > 90
    assert found.tasks[1].after > (0 if method == "lwf" else 60)
    assert adopted.net[4].out_features == 6


def test_rehearsal_keeps_the_old_classes(trained):
    aside = {name: pictures(name, seed=5) for name in FIRST}

    def old_after(method):
        adopted = adopt(trained, method=method, test=aside, batch=8)
        return adopted.learn(MORE, epochs=20, sink=hear).tasks[0].after

    assert old_after("er-even-bnt") > 50 > old_after("sgd")


def test_old_classes_are_not_crowded_out_of_the_memory_by_long_lessons(trained):
    adopted = adopt(trained, capacity=60)
    for name, epochs in zip(MORE, (5, 40, 10), strict=True):
        adopted.learn({name: MORE[name]}, epochs=epochs, held_out=0, sink=hear)
    shares = torch.bincount(adopted.learner.memory.y[: adopted.learner.memory.filled], minlength=6)
    assert 0.3 < shares[:3].sum() / shares.sum() < 0.7
    assert shares[3:].min() > 3


def test_old_images_are_known_by_their_names_and_not_by_their_order(trained):
    turned = dict(reversed(OLD.items()))
    adopted = adopt(trained, memory=turned, test=turned)
    for x, y in (
        (adopted.learner.memory.x[:36], adopted.learner.memory.y[:36]),
        (adopted.held_out.x, adopted.held_out.y),
    ):
        for label, name in enumerate(FIRST):
            own = {bytes(one.numpy()) for one in x[y == label]}
            assert own == {bytes(one.tobytes()) for one in OLD[name]}


def test_old_images_may_come_from_a_folder(trained, tmp_path):
    folder = write_folder(tmp_path / "old", FIRST)
    adopted = adopt(trained, memory=folder, image_size=8)
    assert adopted.learner.memory.x.shape[1:] == (3, 8, 8)
    assert len(adopted.learner.memory) == 36
    path = next((folder / "navy").iterdir())
    assert adopted.predict([path, str(path)]) == adopted.predict(path) * 2


def test_its_file_needs_what_builds_it_and_then_predicts_the_same(trained, tmp_path):
    adopted = adopt(trained)
    adopted.learn(MORE, epochs=2, sink=hear)
    adopted.save(tmp_path / "m")
    with pytest.raises(UserError, match="whose code is not in the file"):
        Model.load(tmp_path / "m")
    with pytest.raises(UserError, match="of another network"):
        Model.load(tmp_path / "m", net=nn.Sequential(nn.Linear(4, 6)))
    x = torch.from_numpy(pictures("navy", 9, seed=3))
    for net in (build, build()):
        again = Model.load(tmp_path / "m", net=net)
        assert torch.equal(again.scores(x), adopted.scores(x))
        assert again.groups == (FIRST, SECOND)
    assert again.learn({"rest": pictures("黒", seed=9)}, epochs=1, sink=hear).tasks[2].images == 2


def test_the_command_line_is_told_what_builds_it(bnt, refused, trained, tmp_path, monkeypatch):
    adopted, model = adopt(trained), tmp_path / "m"
    adopted.save(model)
    folder = write_folder(tmp_path / "new", SECOND)
    refused("predict", model, folder, words=["code is not in the file", "--net"])
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    net = ("--net", "test_adopt:build")
    done = bnt("learn", folder, "--into", model, *net, "--epochs", 2)
    assert done.code == 0, done.err
    assert "task 2: gelb" in done.out
    done = bnt("predict", model, folder, *net, "--json")
    assert len(json.loads(done.out)) == 36


def test_samples_may_be_plain_inputs(tmp_path):
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()
    old = (torch.randn(20, 5), ["a"] * 10 + ["b"] * 10)
    adopted = Model.adopt(net, classes=["a", "b"], memory=old)
    adopted.learn({"c": torch.randn(9, 5) + 4}, epochs=2, sink=hear)
    adopted.save(tmp_path / "m")
    x = torch.randn(3, 5)
    again = Model.load(tmp_path / "m", net=lambda: net)
    assert torch.equal(again.predict_proba(x), adopted.predict_proba(x))
    assert set(again.predict(x.numpy())) <= {"a", "b", "c"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": ["a", "b"]}, "there are 2 class names.*3 outputs"),
        ({"classes": ["a"]}, "there is 1 class name,.*3 outputs"),
        ({"classes": ["a", "b", "a"]}, "'a' twice"),
        ({"classes": ["a", "b", ""]}, "not a class name"),
        ({"classes": ["a", "b", "\udcff"]}, "not a class name"),
        ({"memory": None}, "give some as memory="),
        ({"memory": MORE}, "not a class the network knows"),
        ({"memory": 3}, "samples are given as int"),
        ({"memory": {"navy": [[1, 2], [3]]}}, "not an array"),
        ({"memory": {"navy": torch.zeros(4, dtype=torch.int64)}}, "int64"),
        ({"view": None}, "uint8, the model takes floats"),
        ({"method": "gem"}, "tasks: gem shares out"),
        ({"lr": -1}, "lr -1: input should be greater than 0"),
        ({"capacity": 0}, "memory 0"),
        ({"method": "er-bnt", "hyper": {"alpha": 3}}, "alpha: er-bnt has no such hyper-parameter"),
    ],
)
def test_what_cannot_be_adopted_is_said_in_a_line(trained, change, words):
    with pytest.raises(UserError, match=words) as caught:
        adopt(trained, **change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (View((0.5,) * 3, (0.0, 0.0, 0.0)), "std 0.0: input should be greater than 0"),
        (View((float("nan"), 0.0, 0.0), (1.0,) * 3), "mean nan: input should be a finite number"),
        (View((0.5, 0.5), (1.0, 1.0)), "mean 0.5 0.5: images have 3 channels"),
    ],
)
def test_a_view_that_cannot_be_is_one_line_about_one_value(trained, view, words):
    with pytest.raises(UserError, match=words) as caught:
        adopt(trained, view=view)
    assert len(str(caught.value)) < 100


def test_a_view_is_for_images():
    samples = (torch.randn(4, 5), "aabb")
    with pytest.raises(UserError, match=r"a view is for images, and a sample is \[5\]"):
        Model.adopt(nn.Linear(5, 2), classes=["a", "b"], memory=samples, view=VIEW)


class WithExtraState(nn.Sequential):
    def get_extra_state(self):
        return {"version": 1}

    def set_extra_state(self, state):
        """Nothing to set."""


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (lambda: build().half(), "are float16, .* call .float()"),
        (lambda: build().double(), "are float64, .* call .float()"),
        (lambda: build().requires_grad_(False), "are frozen, .* call .requires_grad_()"),
        (lambda: WithExtraState(*build()), "holds '_extra_state', .* without get_extra_state"),
    ],
)
def test_a_network_that_cannot_be_taught_or_saved_is_refused_at_once(net, words):
    with pytest.raises(UserError, match=words) as caught:
        adopt(net())
    assert "\n" not in str(caught.value)


def test_a_file_is_not_loaded_into_a_network_that_could_not_be_saved_again(trained, tmp_path):
    adopt(trained).save(tmp_path / "m")
    with pytest.raises(UserError, match="which is not a tensor"):
        Model.load(tmp_path / "m", net=WithExtraState(*build()))


def bits(model, x):
    """All that a lesson moves."""
    state = model.learner.state_dict()
    parts = {**state["net"], **state["generators"], **(state["memory"] or {})}
    parts = {name: value for name, value in parts.items() if isinstance(value, torch.Tensor)}
    parts |= {"scores": model.scores(x), "teacher": (state["teacher"] or {}).get("4.weight")}
    counts = (model.learner.memory and model.learner.memory.offered, state["lesson"])
    return {name: None if v is None else v.numpy().tobytes() for name, v in parts.items()}, counts


def interrupted(event):
    if event.get("epoch") == 2:
        raise KeyboardInterrupt


@pytest.mark.fault
@pytest.mark.parametrize(
    ("method", "known"),
    [
        *((method, False) for method in ("er-even-bnt", "der++-bnt", "icarl-bnt", "lwf", "gem")),
        *((method, True) for method in ("er-even-bnt", "der++-bnt", "lwf", "gss")),
    ],
)
def test_an_interrupted_lesson_leaves_the_model_as_it_was(trained, method, known):
    tasks = {"tasks": 2} if method == "gem" else {}
    model, untroubled = (
        adopt(trained, method=method, batch=8, capacity=30, **tasks) for _ in range(2)
    )
    images = {name: pictures(name, seed=8) for name in FIRST} if known else MORE
    x = torch.from_numpy(pictures("navy", 5, seed=2))
    before = bits(model, x)
    with pytest.raises(KeyboardInterrupt):
        model.learn(images, epochs=2, more=known, sink=interrupted)
    assert bits(model, x) == before
    for own in (model, untroubled):
        own.learn(images, epochs=2, more=known)
    assert bits(model, x) == bits(untroubled, x)


@pytest.mark.fault
def test_a_lesson_that_fails_leaves_a_model_that_can_be_used_and_saved(trained, tmp_path):
    model, x = adopt(trained, batch=8), torch.from_numpy(pictures("navy", 5, seed=2))
    before = bits(model, x)
    with pytest.raises(RunError, match="not finite"):
        model.learn(MORE, epochs=2, lr=1e25)
    assert bits(model, x) == before
    assert model.learner.state.optimiser.lr == model.metadata.lr
    model.save(tmp_path / "m")
    assert Model.load(tmp_path / "m", net=build).predict(x) == model.predict(x)


@pytest.mark.fault
def test_a_last_step_that_no_loss_has_seen_may_fail_too(trained, monkeypatch):
    model, x = adopt(trained, batch=8), torch.from_numpy(pictures("navy", 5, seed=2))
    before, end = bits(model, x), Learner.end

    def beyond(self, *samples):
        end(self, *samples)
        self.net[0].weight.data.mul_(torch.inf)

    monkeypatch.setattr(Learner, "end", beyond)
    with pytest.raises(RunError, match="weights are not finite after the last step"):
        model.learn(MORE, epochs=1)
    assert bits(model, x) == before


def test_a_network_without_a_classifier_is_refused():
    with pytest.raises(UserError, match="no linear layer"):
        Model.adopt(nn.BatchNorm1d(3), classes=["a"])


def test_samples_of_another_shape_are_refused(trained):
    adopted = adopt(trained)
    with pytest.raises(UserError, match=r"\[3, 9, 9\], the model takes \[3, 8, 8\]"):
        adopted.predict(torch.zeros(2, 3, 9, 9, dtype=torch.uint8))
    with pytest.raises(UserError, match="uint8"):
        adopted.learn({"x": torch.zeros(5, 3, 8, 8)}, sink=hear)
    with pytest.raises(UserError, match="an array of samples holds NaN"):
        adopted.learn({"x": torch.full((5, 3, 8, 8), torch.nan)}, sink=hear)
    with pytest.raises(UserError, match="held_out 1: the share"):
        adopted.learn(MORE, held_out=1, sink=hear)
    with pytest.raises(UserError, match="lr nan: it must be above 0"):
        adopted.learn(MORE, lr=float("nan"), sink=hear)
    with pytest.raises(UserError, match="at least 1"):
        adopted.learn(MORE, epochs=0, sink=hear)
