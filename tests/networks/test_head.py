"""Heads grow, and what was stored of the smaller head keeps its meaning."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bntricks.batch import Batch
from bntricks.memory import Memory
from bntricks.networks.head import grow, with_head
from bntricks.recipes.language import Pass
from bntricks.recipes.lesson import Lesson
from bntricks.recipes.losses import fdr, kd


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def test_old_outputs_stay_to_the_bit_and_new_ones_come_from_the_generator():
    x, one, other, same = torch.randn(4, 5), network(), network(), network()
    before = one.eval()(x)
    noise = torch.get_rng_state()
    grow(one, 5, torch.Generator().manual_seed(1))
    grow(same, 5, torch.Generator().manual_seed(1))
    grow(other, 5, torch.Generator().manual_seed(2))
    assert torch.equal(torch.get_rng_state(), noise)
    after = one(x)
    assert after.shape == (4, 5)
    assert torch.allclose(after[:, :3], before, rtol=0, atol=1e-6)
    assert torch.equal(one[3].weight[:3], network()[3].weight)
    assert torch.equal(one[3].weight, same[3].weight)
    assert not torch.equal(one[3].weight[3:], other[3].weight[3:])
    assert one[3].weight[3:].abs().max() <= 8**-0.5
    assert one[3].out_features == 5


def test_a_cosine_head_scores_ten_times_the_cosine():
    net, x = nn.Sequential(nn.Linear(4, 3)), torch.randn(5, 4)
    weight = net[0].weight
    scores = with_head(net, "cosine")(x)
    expected = 10 * torch.cosine_similarity(x[:, None], weight[None], dim=2)
    assert torch.allclose(scores, expected, atol=1e-5)


def test_a_head_without_bias_or_frozen_grows_too_and_none_shrinks():
    net = nn.Sequential(nn.Linear(5, 3, bias=False).requires_grad_(False))
    grow(net, 4, torch.Generator())
    assert net[0].weight.shape == (4, 5)
    assert not net[0].weight.requires_grad
    with pytest.raises(ValueError, match="cannot shrink"):
        grow(net, 3, torch.Generator())


def memory_of_two_heads():
    """Two samples stored with 2 logits, then two with 3."""
    memory = Memory(4, insertion=torch.Generator(), sampling=torch.Generator())
    y = torch.tensor([0, 1])
    memory.add(Batch(torch.zeros(2, 1), y, logits=torch.tensor([[1.0, 2], [3, 4]])))
    memory.add(Batch(torch.zeros(2, 1), y, logits=torch.tensor([[5.0, 6, 7], [8, 9, 10]])))
    return memory.read(torch.arange(4))


def a_pass(logits, batch):
    return Pass(logits, batch, Lesson(), net=None)


def test_stored_logits_are_compared_on_the_outputs_they_had():
    batch = memory_of_two_heads()
    assert batch.logits.isnan().tolist() == [[False, False, True]] * 2 + [[False] * 3] * 2
    now = torch.randn(4, 4, requires_grad=True)  # the head has grown once more
    widths = [2, 2, 3, 3]
    rows = [(now[k, :w], batch.logits[k, :w]) for k, w in enumerate(widths)]
    wanted = torch.stack([F.mse_loss(a, b) for a, b in rows]).mean()
    found = kd.of(a_pass(now, batch))
    assert torch.allclose(found, wanted)
    slopes = [torch.autograd.grad(loss, now, retain_graph=True)[0] for loss in (found, wanted)]
    assert torch.allclose(*slopes)

    wanted = torch.stack([(a.softmax(0) - b.softmax(0)).norm() for a, b in rows]).mean()
    found = fdr.of(a_pass(now, batch))
    assert torch.allclose(found, wanted)
    slopes = [torch.autograd.grad(loss, now, retain_graph=True)[0] for loss in (found, wanted)]
    assert torch.allclose(*slopes)


def test_a_head_that_never_grew_has_the_bits_of_the_plain_formulas():
    torch.manual_seed(0)
    now, stored = torch.randn(32, 10, requires_grad=True), torch.randn(32, 10)
    batch = Batch(torch.zeros(32, 1), torch.zeros(32), logits=stored)
    plain = torch.linalg.vector_norm(now.softmax(1) - stored.softmax(1), dim=1).mean()
    for found, wanted in ((kd, F.mse_loss(now, stored)), (fdr, plain)):
        loss = found.of(a_pass(now, batch))
        assert torch.equal(loss, wanted)
        assert torch.equal(*(torch.autograd.grad(part, now)[0] for part in (loss, wanted)))
