"""What a loss may return, and what it is given."""

import inspect
from typing import get_type_hints

import pytest
import torch

from bntricks import BM, Bt, Learner, Method, Pass, Reservoir, UserError, ce, loss
from bntricks.methods import make
from helpers.tiny import batches, network, whole


def learned(*updates, net=None):
    """The weights after three steps."""
    who = Learner(net or network(), Method(updates=updates, memory=Reservoir()), memory=12)
    who.begin([0, 1])
    losses = [who.observe(x, y) for x, y in batches(1)]
    return who.net[0].weight.detach().clone(), losses


@loss("Each")
def of_each_sample(p):
    return (p.logits**2).mean(1)


@loss("Number")
def a_number(p):
    return 0.0


@loss("Elsewhere")
def elsewhere(p):
    return torch.zeros((), device="meta")


@pytest.mark.parametrize(
    ("wrong", "given"),
    [
        (of_each_sample, r"a tensor of shape \[7\]"),
        (a_number, "a float"),
        (elsewhere, "a tensor on meta"),
    ],
)
def test_a_loss_that_is_not_one_number_is_refused_with_its_line(wrong, given):
    line = inspect.getsourcelines(wrong.of)[1]
    with pytest.raises(UserError, match=rf"test_losses\.py, line {line}\) returned {given}: ret"):
        learned(ce(Bt) + wrong(Bt))


@loss("Nothing")
def nothing(p):
    """Such as a contrastive loss of a batch that has no pair."""
    return torch.zeros(())


def test_a_term_without_gradient_is_skipped():
    alone, losses = learned(nothing(Bt))
    assert torch.equal(alone, network()[0].weight)
    assert [float(each) for each in losses] == [0.0] * 3
    assert torch.equal(learned(ce(Bt) + nothing(Bt))[0], learned(ce(Bt))[0])
    assert torch.equal(learned(ce(Bt), nothing(BM))[0], learned(ce(Bt))[0])


@loss("Small")
def asks_for_nothing(p: Pass) -> torch.Tensor:
    return p.features.square().mean()


def test_features_are_a_tensor_for_a_loss_that_asks_for_them():
    assert get_type_hints(Pass.features.fget)["return"] is torch.Tensor
    with pytest.raises(UserError, match="features=True"):
        learned(ce(Bt) + asks_for_nothing(Bt))
    asks = loss("Small", features=True)(asks_for_nothing.of)
    assert not torch.equal(learned(ce(Bt) + asks(Bt))[0], learned(ce(Bt))[0])


def test_methods_that_ship_have_scalar_losses_in_the_first_task():
    for name in ("lwf", "der++", "er-ace", "er-las", "fdr"):
        who = Learner(network(), make(name), memory=12)
        who.begin([0, 1], *whole(1))
        for x, y in batches(1):
            assert who.observe(x, y, ids=torch.arange(len(y))).isfinite()
