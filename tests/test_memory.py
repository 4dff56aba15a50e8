"""The reservoir has exactly the distribution of the sequential algorithm, and draws are uniform."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.stats import chisquare

from bntricks import Batch, Memory

pytestmark = pytest.mark.law

ARRAYS = ("x", "y", "ids", "tasks", "scores")


def memory(capacity, seed=0):
    return Memory(
        capacity,
        insertion=torch.Generator().manual_seed(seed),
        sampling=torch.Generator().manual_seed(seed + 1),
    )


def offer(store, ids, **more):
    ids = torch.as_tensor(ids)
    store.add(Batch(ids[:, None].to(torch.uint8), ids % 7, ids=ids), **more)


def sequential(capacity, sizes, seed):
    """The reservoir one sample at a time, with the same random numbers."""
    generator = torch.Generator().manual_seed(seed)
    slots, n = {}, 0
    for size in sizes:
        for share in torch.rand(size, generator=generator, dtype=torch.float64).tolist():
            slot = n if n < capacity else int(share * (n + 1))
            if slot < capacity:
                slots[slot] = n
            n += 1
    return [slots[i] for i in range(len(slots))]


@given(
    st.integers(1, 30), st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(0, 99)
)
def test_a_batch_at_once_decides_as_one_by_one(capacity, sizes, seed):
    store, n = memory(capacity, seed), 0
    for size in sizes:
        offer(store, range(n, n + size))
        n += size
    assert store.ids[: store.filled].tolist() == sequential(capacity, sizes, seed)
    assert store.filled == min(capacity, n)
    assert store.offered == n


def test_every_sample_ever_offered_is_kept_equally_often():
    kept = np.zeros(60)
    for seed in range(3000):
        store = memory(10, seed)
        for start in range(0, 60, 8):
            offer(store, range(start, min(start + 8, 60)))
        kept[store.ids.numpy()] += 1
    # Without replacement the counts vary less than a multinomial's; the test errs on the mild side.
    assert chisquare(kept).pvalue > 0.001


def test_draws_are_uniform_without_replacement_over_filled_slots():
    store = memory(50)
    offer(store, range(20))
    counts = np.zeros(50)
    for _ in range(2000):
        drawn = store.sample(8)
        assert len(set(drawn.ids.tolist())) == 8
        counts[drawn.ids.numpy()] += 1
    assert counts[20:].sum() == 0
    assert chisquare(counts[:20]).pvalue > 0.001


def test_an_empty_memory_gives_nothing_and_a_small_one_gives_what_it_has():
    store = memory(50)
    assert store.sample(8) is None
    offer(store, range(3))
    assert sorted(store.sample(8).ids.tolist()) == [0, 1, 2]


def test_a_sample_that_is_stored_twice_counts_once():
    store = memory(10)
    assert store.distinct == 0
    offer(store, [0, 1, 0], task=1)
    offer(store, [0, 2], task=2)
    assert (len(store), store.distinct) == (5, 4)  # ids begin anew in every task


def test_earlier_tasks_can_be_drawn_alone():
    store = memory(50)
    offer(store, range(10), task=1)
    offer(store, range(10, 30), task=2)
    assert store.sample(50, before=1) is None
    assert sorted(store.sample(50, before=2).ids.tolist()) == list(range(10))


def test_what_is_kept_beside_a_sample_stays_with_it():
    store = memory(5)
    for start in range(0, 40, 8):
        ids = torch.arange(start, start + 8)
        store.add(Batch(ids[:, None].to(torch.uint8), ids % 3, logits=ids[:, None] * 1.5, ids=ids))
    kept = store.sample(5)
    assert kept.x.dtype == torch.uint8
    assert torch.equal(kept.x[:, 0].long(), kept.ids)
    assert torch.equal(kept.y, kept.ids % 3)
    assert torch.equal(kept.logits[:, 0], kept.ids * 1.5)


def test_state_comes_back_whole():
    store, other = memory(9), memory(9)
    offer(store, range(25), task=3)
    other.load_state_dict(store.state_dict())
    other.insertion.set_state(store.insertion.get_state())
    offer(store, range(25, 50))
    offer(other, range(25, 50))
    assert torch.equal(store.ids, other.ids)
    assert torch.equal(store.x, other.x)


def test_a_memory_for_nothing_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        memory(0)


def test_two_memories_with_the_same_content_do_not_share_it():
    store, other = memory(9), memory(9, seed=5)
    offer(store, range(9), task=1)
    other.load_state_dict(store.state_dict())
    before = {name: value.clone() for name, value in store.state_dict().items() if name in ARRAYS}
    offer(other, range(100, 200), task=2)
    assert all(torch.equal(store.state_dict()[name], value) for name, value in before.items())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"capacity": 40}, "the saved memory has capacity 40, this one has 9"),
        ({"y": torch.zeros(9)}, r"saved y has shape \[9\] or a dtype that does not match"),
    ],
)
def test_a_memory_of_another_kind_does_not_fit(change, reason):
    store, other = memory(9), memory(9)
    offer(store, range(9))
    with pytest.raises(ValueError, match=reason):
        other.load_state_dict({**store.state_dict(), **change})


def test_a_memory_has_generators_of_its_own_unless_it_is_given_some():
    before = torch.get_rng_state()
    first, second = Memory(5), Memory(5)
    for store in (first, second):
        for start in range(0, 40, 8):
            store.add(Batch(torch.arange(start, start + 8.0)[:, None], torch.arange(8)))
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.sample(3).x, second.sample(3).x)
    assert not torch.equal(first.x[:, 0], torch.arange(5.0))
    assert torch.equal(before, torch.get_rng_state())
