"""Life goes on after a lesson: more images of known classes, other names, classes that go. Accuracy
is measured on handwritten digits."""

import pytest
import torch

from bntricks import Model, UserError, open_stream
from bntricks.model.samples import choosing, gather
from bntricks.networks.head import grow
from helpers.colours import FIRST, SECOND, pictures, write_folder


def digits(part, classes, rows=slice(None)):
    """Real images by class name."""
    images = [getattr(task, part) for task in open_stream("seq-digits")]
    x, y = torch.cat([own.x for own in images]), torch.cat([own.y for own in images])
    return {str(k): x[y == k][rows] for k in classes}


def accuracy(model, images):
    right = [
        sum(answer == name for answer in model.predict(x)) / len(x) for name, x in images.items()
    ]
    return 100 * sum(right) / len(right)


@pytest.fixture(scope="module")
def learned():
    """Six digits, of which the first three were learned from 15 images each."""
    few = digits("train", range(3), slice(15))
    model = Model.create(few, width=8, blocks=1, stages=2, batch=16, augment=False, memory=500)
    model.learn(few, epochs=20, held_out=0.2)
    model.learn(digits("train", range(3, 6), slice(60)), epochs=10, held_out=0.2)
    return model


@pytest.fixture
def model_of_digits(learned, tmp_path):
    learned.save(tmp_path / "digits")
    return Model.load(tmp_path / "digits")


def test_more_images_help_their_classes_and_the_others_stay(model_of_digits):
    model = model_of_digits
    old, others = digits("test", range(3)), digits("test", range(3, 6))
    before, before_others = accuracy(model, old), accuracy(model, others)
    model.learn(digits("train", range(3), slice(15, 100)), epochs=10, more=True)
    assert accuracy(model, old) >= max(before, 90)
    assert accuracy(model, others) >= before_others - 5
    assert model.groups == (("0", "1", "2"), ("3", "4", "5"))
    assert model.metadata.taught[-1].more == ("0", "1", "2")
    assert model.net.linear.out_features == 6


def test_a_folder_may_bring_new_classes_and_more_of_old_ones(model_of_digits, tmp_path):
    model = model_of_digits
    old = digits("test", range(1, 6))
    before = accuracy(model, old)
    model.learn(digits("train", (0, 6), slice(15, 75)), epochs=10, more=True)
    assert model.classes == tuple("0123456")
    assert accuracy(model, digits("test", (0, 6))) > 80
    assert accuracy(model, old) >= before - 10
    model.save(tmp_path / "m")
    again = Model.load(tmp_path / "m")
    assert again.groups == model.groups == (("0", "1", "2"), ("3", "4", "5"), ("6",))
    x = digits("test", (0,))["0"]
    assert torch.equal(again.scores(x), model.scores(x))


def test_known_classes_are_measured_before_and_after_on_the_same_images(model_of_digits):
    model = model_of_digits
    more = digits("train", range(2), slice(15, 65))
    tests = gather(more, size=8, held_out=0.2).test
    old = model.held_out.y < 2
    y = torch.cat([model.held_out.y[old], tests.y])
    confirming = ~choosing(y)
    predicted = model.learner.predict(torch.cat([model.held_out.x[old], tests.x]))
    found = model.learn(more, epochs=1, more=True)
    for k in range(2):
        own = confirming & (y == k)
        right = (predicted[own] == k).double().mean().item()
        assert found.classes[k].before == pytest.approx(100 * right)
        assert found.classes[k].images == int(own.sum())


def test_images_that_are_tested_on_or_remembered_are_not_learned_again(model_of_digits):
    model = model_of_digits
    held = {x.numpy().tobytes() for x in model.held_out.x}
    again = digits("train", (0,), slice(15))
    with pytest.raises(UserError, match="has all these images already"):
        model.learn(again, more=True)
    folder = digits("train", (0,), slice(25)) | digits("train", (1,), slice(15))
    found = model.learn(folder, epochs=1, more=True)
    assert found.images == 8  # of ten that are new, a fifth of the last ones is held out
    assert model.metadata.taught[-1].more == ("0",)  # of the other class there are none
    memory = model.learner.memory
    stored = [x.numpy().tobytes() for x in memory.x[: len(memory)]]
    assert held.isdisjoint(stored)
    assert len(set(stored)) == len(stored)


def test_a_class_that_goes_leaves_the_others_as_they_were(model_of_digits, tmp_path):
    model = model_of_digits
    kept = digits("test", (0, 2, 3, 4, 5))
    before = {name: model.scores(x) for name, x in kept.items()}
    accuracy_before = accuracy(model, kept)
    model.remove(["1"])
    assert model.groups == (("0", "2"), ("3", "4", "5"))
    for name, x in kept.items():
        assert torch.allclose(model.scores(x), before[name][:, [0, 2, 3, 4, 5]], atol=1e-5)
    assert accuracy(model, kept) >= accuracy_before
    memory = model.learner.memory
    assert set(memory.y[: len(memory)].tolist()) == set(range(5))
    assert set(model.held_out.y.tolist()) == set(range(5))
    model.save(tmp_path / "m")
    again = Model.load(tmp_path / "m")
    again.learn(digits("train", (1,), slice(60)), epochs=5)  # it may come back
    assert again.classes == ("0", "2", "3", "4", "5", "1")
    assert accuracy(again, kept) >= accuracy_before - 10
    with pytest.raises(UserError, match="at least one"):
        again.remove(again.classes)


def test_a_new_name_changes_no_answer(model_of_digits):
    model = model_of_digits
    x = digits("test", (1,))["1"]
    before = model.scores(x)
    model.rename({"1": "one", "0": "1"})
    assert model.classes == ("1", "one", "2", "3", "4", "5")
    assert torch.equal(model.scores(x), before)
    for names, words in (
        ({"2": "3"}, "two classes"),
        ({"7": "8"}, "'7' is not"),
        ({"2": ""}, "''"),
    ):
        with pytest.raises(UserError, match=words):
            model.rename(names)


@pytest.mark.parametrize("level", [-6.0, 6.0])
def test_new_outputs_begin_at_the_level_of_the_old_biases(level):
    net = torch.nn.Sequential(torch.nn.Linear(16, 4))
    with torch.no_grad():
        net[0].bias += level
    grow(net, 6, torch.Generator().manual_seed(0))
    assert (net[0].bias[4:] - net[0].bias[:4].mean()).abs().max() <= 0.25


def test_an_adopted_network_can_lose_a_class_that_it_came_with(tmp_path):
    def build():
        body = (torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
        return torch.nn.Sequential(*body, torch.nn.Linear(8, 3))

    model = Model.adopt(build(), classes="abc", memory=(torch.randn(9, 5), "aaabbbccc"))
    model.remove(["b"])
    model.save(tmp_path / "m")
    x = torch.randn(4, 5)
    assert torch.equal(Model.load(tmp_path / "m", net=build).scores(x), model.scores(x))


def test_the_command_line_asks_for_more_and_then_learns_it(bnt, refused, model, tmp_path):
    folder = tmp_path / "third"
    write_folder(folder, ["navy"], 20)
    refused("learn", folder, "--into", model, words=["'navy'", "--more"])
    done = bnt("learn", folder, "--into", model, "--more", "--epochs", 1)
    assert done.code == 0, done.err
    assert "learned navy from" in done.out
    assert Model.load(model).classes == FIRST


def test_the_command_line_renames_and_removes(bnt, refused, model):
    assert bnt("rename-class", model, "navy", "marine").code == 0
    done = bnt("remove-class", model, "grün")
    assert "knows 2 classes now" in done.out
    assert Model.load(model).classes == ("crimson", "marine")
    refused("remove-class", model, "grün", words=["'grün' is not a class", "'marine'"])
    refused("rename-class", model, "crimson", "marine", words=["'marine'"])


@pytest.mark.parametrize("method", ["icarl", "fdr"])
def test_methods_that_share_out_their_memory_once_refuse_more(method):
    images = {name: pictures(name) for name in FIRST}
    model = Model.create(images, width=4, blocks=1, stages=2, memory=24, method=method)
    model.learn(images, epochs=1)
    model.learn({name: pictures(name) for name in SECOND}, epochs=1)
    with pytest.raises(UserError, match=f"{method} shares out its memory"):
        model.learn({"navy": pictures("navy", seed=5)}, more=True)
    model.remove(["navy"])
    assert len(model.answer(pictures("crimson", 2), top=9)[0].candidates) == 5
