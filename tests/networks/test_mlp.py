"""The network for vectors, by name."""

import pytest
import torch

from bntricks import UserError
from bntricks.networks.options import NetworkOptions
from bntricks.networks.registry import build_network, sizes
from bntricks.runs.config import Config
from bntricks.runs.resolve import own_network


def build(**options):
    options = NetworkOptions(net="mlp", width=8, **options)
    return build_network(options, (10,), 4, torch.Generator().manual_seed(0))


def test_it_has_a_width_and_no_other_size():
    assert sizes("mlp") == {"width"}
    assert build()(torch.randn(3, 10)).shape == (3, 4)
    deep, usual = (own_network(Config(net="mlp", blocks=n)) for n in (3, Config().blocks))
    assert deep == usual


@pytest.mark.parametrize("options", [{"norm": "gn"}, {"momentum": 0.05}])
def test_it_is_refused_another_normalisation_and_options_of_one(options):
    with pytest.raises(UserError, match="plain BatchNorm only: leave out the norm and its options"):
        build(**options)
