"""A network that a user's function builds, by `package.module:function`."""

import pytest
import torch
from torch import nn

from bntricks.errors import UserError
from bntricks.networks.norms.group_norm import group_norm
from bntricks.networks.options import NetworkOptions
from bntricks.networks.registry import build_network, sizes
from bntricks.seeds import generator

pytestmark = pytest.mark.law

CODE = """
import torch
from torch import nn

def good(classes):
    convolution = nn.Conv2d(1, 6, 3, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(6), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(6, classes))

def fixed(classes):
    return good(7)

def other(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(5, classes))

def headless(classes):
    return nn.Flatten()

def raises(classes):
    raise KeyError("weights")

def lazy(classes):
    return nn.LazyLinear(classes)

def number(classes):
    return classes

def none():
    return good(3)

constant = 3
"""


@pytest.fixture(autouse=True)
def code(tmp_path, monkeypatch):
    (tmp_path / "imported_code.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)


def build(name, seed=0, **options):
    where = name if ":" in name else f"imported_code:{name}"
    init = generator(seed, "init")
    return build_network(NetworkOptions(net=where, **options), (1, 8, 8), 4, init)


def test_it_is_called_with_the_number_of_classes_and_starts_from_the_seed():
    torch.manual_seed(5)
    net, again, other = build("good"), build("good"), build("good", seed=1)
    assert net(torch.zeros(2, 1, 8, 8)).shape == (2, 4)
    assert torch.equal(net[0].weight, again[0].weight)
    assert not torch.equal(net[0].weight, other[0].weight)
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(1), after)
    assert sizes("imported_code:good") == set()


def test_another_norm_takes_the_place_of_its_batchnorm():
    assert build("good", momentum=0.02)[1].momentum == 0.02
    assert type(build("good", norm="gn")[1]) is type(group_norm(6))
    assert isinstance(build("good")[1], nn.BatchNorm2d)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fixed", r"gives \[2, 7\] for two samples, from a last linear layer of 7"),
        ("other", r"does not take samples of \[1, 8, 8\]: RuntimeError"),
        ("headless", "it has no classifier"),
        ("raises", "calling it raised KeyError: 'weights' .*imported_code.py, line"),
        ("lazy", "its layers are lazy"),
        ("number", "it returned a int, .* takes the number of classes and returns the network"),
        ("none", "calling it raised TypeError"),
        ("constant", "constant of imported_code is not a function"),
        ("absent", "imported_code has no absent"),
        ("nowhere_at_all:build", "importing nowhere_at_all raised ModuleNotFoundError"),
        ("a b:c d", "write it as package.module:function"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_line(name, words):
    with pytest.raises(UserError, match=words) as caught:
        build(name)
    assert "\n" not in str(caught.value)
    assert caught.value.option == "net"


def test_a_norm_is_refused_where_there_is_nothing_to_replace():
    with pytest.raises(UserError, match=r"norm gn: the network .* has no BatchNorm2d"):
        build("headless", norm="gn")
