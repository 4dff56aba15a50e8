"""The ResNet-32 of He et al."""

import pytest
import torch

from bntricks.networks.head import features
from bntricks.networks.options import NetworkOptions
from bntricks.networks.registry import build_network
from bntricks.networks.resnet32 import PaddedBlock
from bntricks.norm import layers
from bntricks.seeds import generator

pytestmark = pytest.mark.reference


def built(**options):
    init = generator(0, "init")
    return build_network(NetworkOptions(net="resnet32", **options), (3, 32, 32), 10, init)


def test_it_has_the_parameters_and_layers_of_the_paper():
    net = built()
    assert sum(each.numel() for each in net.parameters()) == 464_154
    assert sum(isinstance(m, torch.nn.Conv2d) for m in net.modules()) == 31
    assert len(layers(net)) == 31
    x = torch.randn(2, 3, 32, 32)
    assert features(net, x).shape == (2, 64)
    assert net(x).shape == (2, 10)


def test_a_stage_begins_with_every_second_pixel_and_channels_of_zeros():
    block = PaddedBlock(2, 4, torch.nn.BatchNorm2d)
    torch.nn.init.zeros_(block.bn2.weight)  # the shortcut alone
    x = torch.rand(3, 2, 6, 6)
    y = block(x)
    assert torch.equal(y[:, :2], x[:, :, ::2, ::2])
    assert not y[:, 2:].any()


def test_it_is_normalised_by_choice_and_has_one_size():
    assert not layers(built(norm="gn"))
    assert len(built(width=8).state_dict()) == len(built().state_dict())
