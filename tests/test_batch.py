"""balance(): spec A1 and A2, as laws over all class counts and batch contents."""

import math

import pytest
import torch
from hypothesis import given, strategies as st

from bntricks import Batch, balance
from bntricks.batch import batch_count, blend, copies, shuffled

pytestmark = pytest.mark.law


def batch(labels):
    labels = torch.tensor(labels, dtype=torch.int64)
    return Batch(torch.arange(len(labels), dtype=torch.float32)[:, None], labels)


@st.composite
def situations(draw):
    old = list(range(draw(st.integers(1, 12))))
    new = [100 + i for i in range(draw(st.integers(1, 6)))]
    memory = draw(st.lists(st.sampled_from(old + new), min_size=2, max_size=40))
    current = draw(st.lists(st.sampled_from(new), min_size=1, max_size=40))
    return old, new, memory, current


@given(situations())
def test_just_enough_new_samples_join_to_even_out_the_classes(situation):
    old, new, memory, current = situation
    result = balance(batch(current), batch(memory), new=new, old=old)
    m_new = sum(y in new for y in memory)
    m_old = len(memory) - m_new
    k = math.floor(m_old * len(new) / len(old) + 0.5) - m_new
    assert len(result) == len(memory) + min(max(k, 0), len(current))


@given(situations())
def test_the_ratio_rule_ignores_new_samples_already_in_memory(situation):
    old, new, memory, current = situation
    result = balance(batch(current), batch(memory), new=new, old=old, rule="ratio")
    k = math.floor(len(memory) * len(new) / len(old) + 0.5)
    assert len(result) == len(memory) + min(k, len(current))


@given(situations())
def test_the_balanced_batch_is_the_memory_batch_and_the_first_rows_of_the_current(situation):
    old, new, memory, current = situation
    result = balance(batch(current), batch(memory), new=new, old=old)
    assert result.y[: len(memory)].tolist() == memory
    taken = result.x[len(memory) :, 0].tolist()
    assert taken == list(range(len(taken)))


def test_both_rules_agree_when_the_memory_holds_no_new_samples():
    current, memory = batch([4, 5] * 16), batch([0, 1, 2, 3] * 8)
    by_count = balance(current, memory, new=[4, 5], old=[0, 1, 2, 3])
    by_ratio = balance(current, memory, new=[4, 5], old=[0, 1, 2, 3], rule="ratio")
    assert len(by_count) == len(by_ratio) == 32 + 16


def test_in_the_first_task_everything_serves():
    current, memory = batch([0, 1, 0]), batch([1, 1])
    assert balance(current, None, new=[0, 1], old=[]) is current
    assert balance(current, memory, new=[0, 1], old=[]).y.tolist() == [0, 1, 0, 1, 1]


def test_a_balanced_batch_never_has_a_single_sample():
    result = balance(batch([9, 9]), batch([0]), new=[9], old=list(range(9)))
    assert len(result) == 2


def test_copies_weigh_together_as_much_as_one():
    tripled = copies(batch([0, 1]), 3)
    assert len(tripled) == 6
    assert tripled.weight.sum().item() == 2.0
    joined = batch([5, 5]) | tripled
    assert joined.weight.tolist()[:2] == [1.0, 1.0]


@given(st.integers(2, 400), st.integers(2, 64))
def test_every_sample_comes_once_an_epoch_and_never_alone(count, size):
    parts = list(shuffled(count, size, torch.Generator()))
    assert sorted(torch.cat(parts).tolist()) == list(range(count))
    assert len(parts) == batch_count(count, size)
    assert all(2 <= len(part) <= size + 1 for part in parts)
    assert all(len(part) == size for part in parts[:-1])


@given(st.integers(2, 400), st.integers(2, 64))
def test_even_batches_differ_by_one_sample_at_most_and_none_is_tiny(count, size):
    parts = list(shuffled(count, size, torch.Generator(), even=True))
    assert sorted(torch.cat(parts).tolist()) == list(range(count))
    assert len(parts) == batch_count(count, size, even=True)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= min(count, 2 * size // 3)
    assert max(sizes) <= 1.5 * size


def test_blending_keeps_the_images_mean_and_both_labels():
    whole = batch([0, 1, 2, 3, 4, 5])
    mixed = blend(whole, 1.0, torch.Generator().manual_seed(0))
    partners = {int(y): float(x) for x, y in zip(whole.x, whole.y, strict=True)}
    for x, y, partner, share in zip(mixed.x, mixed.y, mixed.partner, mixed.share, strict=True):
        assert 0 <= share <= 1
        expected = share * partners[int(y)] + (1 - share) * partners[int(partner)]
        assert torch.isclose(x, expected).all()
    assert sorted(mixed.partner) == sorted(whole.y)


def test_a_union_with_a_blended_batch_blends_nothing_into_the_rest():
    mixed = blend(batch([0, 1, 2]), 1.0, torch.Generator().manual_seed(0))
    union = batch([7, 8]) | mixed
    assert union.partner.tolist() == [7, 8, *mixed.partner.tolist()]
    assert union.share.tolist() == [1.0, 1.0, *mixed.share.tolist()]
    last = union.rows(slice(2, 5))
    assert torch.equal(last.partner, mixed.partner)
    assert torch.equal(last.share, mixed.share)


def test_a_batch_has_a_label_for_each_sample():
    with pytest.raises(ValueError, match=r"x is \[8, 3\] and y is \[7\]"):
        Batch(torch.zeros(8, 3), torch.zeros(7))
    with pytest.raises(ValueError, match=r"y is \[8, 10\]"):
        Batch(torch.zeros(8, 3), torch.zeros(8, 10))
    with pytest.raises(ValueError, match=r"these are on meta: y.cpu\(\)"):
        Batch(torch.zeros(8, 3), torch.zeros(8, device="meta"))


def test_the_samples_that_join_may_be_drawn():
    """Of a loader that sorts by class, the first rows would all be of one."""
    y = torch.arange(20) // 10 + 2
    current = Batch(torch.arange(20.0)[:, None], y)
    memory = Batch(torch.zeros(8, 1), torch.arange(8) % 2)
    first = balance(current, memory, new=[2, 3], old=[0, 1])
    assert first.x[8:, 0].tolist() == list(range(8))
    generator = torch.Generator().manual_seed(0)
    drawn = balance(current, memory, new=[2, 3], old=[0, 1], generator=generator)
    assert len(drawn) == len(first)
    assert set(drawn.y.tolist()) == {0, 1, 2, 3}
    assert torch.equal(drawn.y[8:], y[drawn.x[8:, 0].long()])


def test_classes_of_uneven_size_are_drawn_evenly_and_no_image_is_left_out_for_long():
    y = torch.tensor([0] * 200 + [3] * 20 + [7] * 200)
    order, seen = torch.Generator().manual_seed(0), set()
    for _ in range(12):
        ids = torch.cat(list(shuffled(len(y), 64, order, even=True, y=y)))
        assert torch.bincount(y[ids])[[0, 3, 7]].tolist() == [140, 140, 140]
        assert torch.bincount(ids[y[ids] == 3])[200:220].tolist() == [7] * 20
        assert len(set(ids[y[ids] != 3].tolist())) == 280, "none twice in an epoch"
        seen |= set(ids.tolist())
    assert seen == set(range(420))


def test_classes_of_even_size_are_drawn_as_if_nobody_had_asked():
    y = torch.arange(30) % 3
    y[0] = 1
    for labels in (torch.arange(30) % 3, y):
        plain, even = (
            torch.cat(list(shuffled(30, 8, torch.Generator().manual_seed(1), y=each)))
            for each in (None, labels)
        )
        assert torch.equal(plain, even) == (labels is not y)
