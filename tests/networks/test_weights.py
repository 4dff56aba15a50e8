"""Checkpoints as people have them: read whatever the layout, and written as they were."""

import argparse
from collections import OrderedDict

import pytest
import safetensors.torch as safe
import torch
from torch import nn

from bntricks import UserError, diagnose
from bntricks.networks.weights import load_weights, save_weights
from helpers.doctor_data import groups


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 5))


def stored():
    """A state dict that differs from a new network's."""
    torch.manual_seed(1)
    return {
        name: torch.rand_like(value) if value.is_floating_point() else value + 7
        for name, value in network().state_dict().items()
    }


def named(prefix, state):
    return OrderedDict((prefix + name, value) for name, value in state.items())


ARGUMENTS = argparse.Namespace(lr=0.1, mean=[0.5], model="resnet18")
LIGHTNING = {
    "epoch": 3,
    "pytorch-lightning_version": "2.4.0",
    "state_dict": {**named("model.", stored()), "criterion.weight": torch.ones(5)},
    "optimizer_states": [{"state": {0: {"momentum_buffer": torch.ones(2)}}}],
    "hyper_parameters": {"lr": 0.1},
}
TIMM = {
    "epoch": 3,
    "arch": "resnet18",
    "state_dict": stored(),
    "optimizer": {"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": [{"lr": 0.1}]},
    "args": ARGUMENTS,
    "state_dict_ema": network().state_dict(),
}
LAYOUTS = {
    "plain": (stored(), ()),
    "data parallel": (named("module.", stored()), ()),
    "compiled": (named("_orig_mod.", stored()), ()),
    "compiled and parallel": ({"model": named("module._orig_mod.", stored())}, ("model",)),
    "compiled within": (
        {"net": {f"net.{k.replace('1.', '1._orig_mod.')}": v for k, v in stored().items()}},
        ("net",),
    ),
    "lightning": (LIGHTNING, ("state_dict",)),
    "timm": (TIMM, ("state_dict",)),
    "a name of its own": ({"student": named("encoder.", stored())}, ("student",)),
}


def read(path):
    with torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(path, weights_only=True)


@pytest.mark.parametrize(("content", "place"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_checkpoint_is_read_and_written_in_its_layout(content, place, tmp_path):
    sick, fixed, net = tmp_path / "sick.pt", tmp_path / "fixed.ckpt", network()
    torch.save(content, sick)
    checkpoint = load_weights(net, sick)
    for name, value in net.state_dict().items():
        assert torch.equal(value, stored()[name]), name
    net[1].running_mean.fill_(3.0)
    save_weights(net, checkpoint, fixed)
    before, after = read(sick), read(fixed)
    assert plain_part(before, place) == plain_part(after, place)
    for key in place:
        assert list(before) == list(after)
        before, after = before[key], after[key]
    assert list(before) == list(after)
    changed = [key for key in before if not torch.equal(before[key], after[key])]
    assert [key[-12:] for key in changed] == ["running_mean"]
    assert after[changed[0]].tolist() == [3.0] * 4
    again = network()
    load_weights(again, fixed)
    assert torch.equal(again[1].running_mean, net[1].running_mean)


def plain_part(content, place):
    return repr({key: value for key, value in content.items() if key not in place[:1]}) * bool(
        place
    )


def test_the_ending_of_the_name_decides_about_the_format(tmp_path):
    net, path = network(), tmp_path / "lightning.ckpt"
    torch.save(LIGHTNING, path)
    checkpoint = load_weights(net, path)
    save_weights(net, checkpoint, tmp_path / "a.safetensors")
    assert set(safe.load_file(tmp_path / "a.safetensors")) == set(LIGHTNING["state_dict"])
    save_weights(net, checkpoint, tmp_path / "without")
    assert read(tmp_path / "without")["hyper_parameters"] == {"lr": 0.1}
    safe.save_file(named("model.", stored()), tmp_path / "b.safetensors", {"format": "pt"})
    tensors = load_weights(net, tmp_path / "b.safetensors")
    save_weights(net, tensors, tmp_path / "c.safetensors")
    save_weights(net, tensors, tmp_path / "c.pt")
    with safe.safe_open(tmp_path / "c.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert set(file.keys()) == {f"model.{name}" for name in stored()}
    assert set(read(tmp_path / "c.pt")) == {f"model.{name}" for name in stored()}
    save_weights(net, None, tmp_path / "own.pt")
    assert set(read(tmp_path / "own.pt")) == set(stored())


def test_numbers_are_written_as_precise_as_they_were_read(tmp_path):
    half = {k: v.half() if v.is_floating_point() else v for k, v in stored().items()}
    net, path = network(), tmp_path / "half.pt"
    torch.save(half, path)
    checkpoint = load_weights(net, path)
    net[1].running_var.mul_(2)
    save_weights(net, checkpoint, path)
    assert {k: v.dtype for k, v in read(path).items()} == {k: v.dtype for k, v in half.items()}
    assert torch.equal(read(path)["1.running_var"], half["1.running_var"] * 2)


def test_a_file_without_batch_counters_stays_without(tmp_path):
    net, path = network(), tmp_path / "old.pt"
    torch.save({k: v for k, v in stored().items() if "tracked" not in k}, path)
    save_weights(net, load_weights(net, path), path)
    assert not [key for key in read(path) if "tracked" in key]


@pytest.mark.parametrize("way", ["linear in the file", "convolution in the file"])
def test_a_1x1_convolution_and_a_linear_layer_have_the_same_weights(way, tmp_path):
    class Pooled(nn.Module):
        def __init__(self, classifier):
            super().__init__()
            self.norm, self.classifier = nn.BatchNorm2d(3), classifier

        def forward(self, x):
            x = self.norm(x).mean((2, 3), keepdim=True)
            return self.classifier(x if isinstance(self.classifier, nn.Conv2d) else x.flatten(1))

    pair = [Pooled(nn.Linear(3, 4)), Pooled(nn.Conv2d(3, 4, 1))]
    one, other = pair if way == "linear in the file" else pair[::-1]
    path, x = tmp_path / "w.pt", torch.randn(6, 3, 5, 5)
    torch.save(one.state_dict(), path)
    save_weights(other, load_weights(other, path), path)
    assert read(path)["classifier.weight"].shape == one.classifier.weight.shape
    assert torch.allclose(one.eval()(x).flatten(1), other.eval()(x).flatten(1), atol=1e-6)
    images = {
        name: [(x[:, :3, None, None].expand(-1, -1, 2, 2), y) for x, y in batches]
        for name, batches in groups(batches=2).items()
    }
    first, second = diagnose(one, images), diagnose(other, images)
    assert first.as_is == second.as_is
    assert [each.name for each in first.remedies] == [each.name for each in second.remedies] != []


class Odd:
    """A class that nobody allowed."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"state_dict": stored(), "config": Odd()},
            r"holds no weights .* has a \S*Odd, and to read",
        ),
        (
            {**named("teacher.", stored()), **named("student.", stored())},
            "has several such networks, under 'student.', 'teacher.': save the state dict of one",
        ),
        ({"state_dict": {"model.0.weight": torch.ones(4, 3, 3, 3)}}, "it lacks 0.bias, 1.weight"),
        (
            {**named("model.", stored()), "model.extra": torch.ones(1)},
            "it also has model.extra",
        ),
        (
            {k: v for k, v in stored().items() if not k.startswith("1.")},
            "it has no running statistics, as after BatchNorm was folded into the convolutions",
        ),
        ({"epoch": 3}, "is not a state dict"),
    ],
    ids=["object", "two networks", "cut", "more", "folded", "none"],
)
def test_what_cannot_be_read_is_one_line(content, message, tmp_path):
    path, net = tmp_path / "w.pt", network()
    torch.save(content, path)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(UserError, match=message) as raised:
        load_weights(net, path)
    assert "\n" not in str(raised.value)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_of_a_network_and_its_average_the_network_is_read(tmp_path):
    average = named("ema_model.", network().state_dict())
    torch.save({"state_dict": {**average, **named("model.", stored())}}, tmp_path / "w.ckpt")
    net = network()
    load_weights(net, tmp_path / "w.ckpt")
    assert torch.equal(net[0].weight, stored()["0.weight"])


def test_a_network_without_batchnorm_whose_convolutions_have_biases_may_be_folded():
    folded = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4))
    with pytest.raises(UserError, match="if that was folded into its convolutions"):
        diagnose(folded, groups(batches=2))
    for other in (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)),
        nn.Sequential(nn.Conv2d(3, 4, 3, bias=False)),
        nn.Sequential(nn.Linear(6, 4)),
    ):
        with pytest.raises(UserError, match=r"it has no BatchNorm layer$"):
            diagnose(other, groups(batches=2))
