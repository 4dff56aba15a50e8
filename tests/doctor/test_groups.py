"""Groups become balanced batches and disjoint halves; what cannot be used is one clear line."""

from itertools import islice

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from bntricks import UserError, diagnose, mixed
from bntricks.doctor.groups import first_half, halves, rebatched, survey
from helpers.doctor_data import groups, network


def numbered(counts, first=0):
    """Batches of so many samples; every sample is a number of its own, and its label its parity."""
    made = []
    for count in counts:
        x = torch.arange(first, first + count).float()[:, None]
        made.append((x, x[:, 0].long() % 2))
        first += count
    return made


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=8).filter(lambda s: sum(s) >= 4)


def unequal(counts):
    """One batch with so many samples of each class; the inputs are numbers of their own."""
    y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return [(torch.arange(len(y)).float()[:, None], y)]


@given(sizes)
def test_halves_are_disjoint_whole_and_the_same_on_every_pass(counts):
    data = {"a": numbered(counts), "b": numbered([4])}
    surveyed = survey(data)
    one, other = ([x for x, _ in half["a"]()] for half in halves(surveyed, data))
    samples = torch.cat([*one, *other]).flatten()
    assert sorted(samples.tolist()) == list(range(sum(counts)))
    assert abs(sum(map(len, one)) - sum(map(len, other))) <= 1
    again = torch.cat([x for x, _ in halves(surveyed, data)[0]["a"]()])
    assert torch.equal(torch.cat(one), again)


@given(st.lists(st.integers(1, 9), min_size=4, max_size=8))
def test_every_class_is_halved(counts):
    data = {"a": unequal(counts), "b": numbered([4])}
    group = survey(data)[0]
    one, other = (
        torch.cat([y for _, y in half["a"]()]).bincount(minlength=len(counts)).tolist()
        for half in halves(survey(data), data)
    )
    assert all(abs(x - y) <= 1 for x, y in zip(one, other, strict=True))
    assert group.counts == tuple(counts)
    assert first_half(group).counts == tuple(one)
    assert first_half(group).samples == sum(one)


@given(sizes, st.integers(1, 12))
def test_rebatched_samples_are_all_there_without_a_small_last_batch(counts, size):
    made = list(rebatched(numbered(counts), size))
    x, y = (torch.cat(part) for part in zip(*made, strict=True))
    assert sorted(x.flatten().tolist()) == list(range(sum(counts)))
    assert torch.equal(x[:, 0].long() % 2, y)
    if sum(counts) >= size:
        assert all(size <= len(part) < 2 * size for part, _ in made)
    assert len(made) == max(1, sum(counts) // size)


@given(sizes, sizes, st.integers(4, 40))
def test_mixed_batches_are_balanced_and_hold_every_sample(few, many, size):
    data = {"few": numbered(few), "many": numbered(many, first=1000)}
    made = list(mixed(data, size=size))
    taken = torch.cat(made).flatten().tolist()
    assert set(taken) == {*range(sum(few)), *range(1000, 1000 + sum(many))}
    for upto in range(1, len(made) + 1):
        so_far = torch.cat(made[:upto])
        assert abs(int((so_far >= 1000).sum()) - upto * size / 2) <= 1


def test_equal_groups_are_mixed_without_repetition():
    data = {"a": numbered([16, 16]), "b": numbered([32], first=100)}
    made = list(mixed(data, size=16))
    assert [len(part) for part in made] == [16] * 4
    assert len(torch.cat(made).unique()) == 64


@given(st.lists(st.integers(1, 60), min_size=2, max_size=4), st.integers(8, 40))
def test_classes_have_the_same_share_however_many_samples_they_have(counts, size):
    data = {"a": unequal([*counts, 9]), "b": [(-torch.ones(4, 1), torch.full((4,), 9))]}
    labels = torch.cat([data["a"][0][1], torch.tensor([9])])  # -1 is the last
    classes, upto, seen = len(counts) + 2, 0, []
    for part in mixed(data, size=size):
        upto += size
        seen.append(part.flatten().long())
        drawn = labels[torch.cat(seen)].bincount(minlength=10)
        for label in (*range(len(counts) + 1), 9):
            assert abs(int(drawn[label]) - upto / classes) <= 2
    assert set(torch.cat(seen).tolist()) == {-1, *range(sum(counts) + 9)}


def test_a_group_is_read_a_few_times_only_though_a_class_is_rare():
    reads = 0

    def imbalanced():
        nonlocal reads
        reads += 1
        yield from unequal([4000, 2])

    few = {"old": imbalanced, "new": numbered([4])}
    batches = list(mixed(few, size=100))
    assert reads <= 8 + 2  # one of them to survey, and one to begin again
    assert len(torch.cat(batches).unique()) == 4002


def test_a_class_that_is_never_seen_again_does_not_stop_everything():
    reads = 0

    def forgetful():
        nonlocal reads
        reads += 1
        yield from unequal([8, 8] if reads == 1 else [16, 0])

    with pytest.raises(UserError, match="'old' no longer contains class 1"):
        list(mixed({"old": forgetful, "new": numbered([8])}, size=16))


def test_groups_weigh_by_their_classes():
    old = [(torch.zeros(30, 1), torch.arange(30) % 3)] * 4
    new = [(torch.ones(30, 1), torch.full((30,), 3))] * 4
    for part in islice(mixed({"old": old, "new": new}, size=16), 5):
        assert part.mean().item() == 0.25


def test_a_survey_counts_samples_by_class():
    by_class = [(torch.zeros(8, 1), torch.full((8,), k)) for k in (5, 2, 5)]
    first, second = survey({"sorted": by_class, "varied": unequal([3, 5])})
    assert (first.samples, first.classes, first.counts) == (24, (2, 5), (8, 16))
    assert (second.samples, second.classes, second.counts) == (8, (0, 1), (3, 5))


def by_class(batches):
    """All of it in one batch, class after class."""
    x, y = (torch.cat(part) for part in zip(*batches, strict=True))
    order = y.argsort(stable=True)
    return [(x[order], y[order])]


@pytest.mark.parametrize("apart", [True, False])
def test_one_batch_that_is_sorted_by_class_is_measured_like_a_shuffled_one(apart):
    data = groups(batches=40)
    ordered = {name: by_class(batches) for name, batches in data.items()}
    one, other = (
        diagnose(network(), own, held_out=data if apart else None) for own in (data, ordered)
    )
    assert other.notes == ()
    for shuffled, own in zip(one.layers, other.layers, strict=True):
        assert own.distance == pytest.approx(shuffled.distance, rel=0.05)
        assert own.separation == pytest.approx(shuffled.separation, rel=0.1)


@pytest.mark.parametrize("size", [1, 64])
def test_batches_that_come_class_after_class_are_remarked(size):
    data = groups(batches=12)
    ((x, y),) = by_class(data["old"])
    wide = nn.Sequential(*network()[:-1], nn.Linear(10, 16))
    y = torch.arange(len(y)) // (len(y) // 8) + 4  # eight classes, one after another
    ordered = list(zip(x.split(size), y.split(size), strict=True))
    (note,) = diagnose(wide, {"old": ordered, "new": data["new"]}).notes
    assert "batches of 'old' hold few classes each" in note


def test_rare_classes_alone_are_no_reason_for_a_remark():
    generator = torch.Generator().manual_seed(0)
    y = torch.tensor([0] * 600 + [*range(1, 20)] * 2)
    x, order = (
        torch.randn(len(y), 6, generator=generator),
        torch.randperm(len(y), generator=generator),
    )
    skewed = list(zip(x[order].split(64), y[order].split(64), strict=True))
    new = [(torch.randn(40, 6, generator=generator), torch.full((40,), 20))]
    wide = nn.Sequential(*network()[:-1], nn.Linear(10, 21))
    assert diagnose(wide, {"old": skewed, "new": new}).notes == ()


GOOD = groups(batches=2)
X, Y = GOOD["new"][0]


def no_statistics():
    return nn.Sequential(nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 4))


def spoiled():
    net = network()
    net[4].running_var[2] = float("nan")
    return net


@pytest.mark.parametrize(
    ("net", "data", "message"),
    [
        (network, {"old": GOOD["old"]}, "got 1 group of batches: give at least two"),
        (network, {}, "got 0 groups of batches: give at least two"),
        (network, {**GOOD, "new": []}, "group 'new' has 0 samples: it needs at least 4"),
        (network, {**GOOD, "new": [(X[:3], Y[:3])]}, "group 'new' has 3 samples"),
        (network, {**GOOD, "new": [(X, Y + 9)]}, r"'new' has the label 1[12], .* has 4 outputs"),
        (network, {**GOOD, "new": [(X, Y - 3)]}, "'new' has the label -1, but the model has 4"),
        (network, {**GOOD, "new": [X]}, r"'new' is a float32 tensor \[32, 6\]: it must be a pair"),
        (network, {**GOOD, "new": [(X, Y.float())]}, r"float32 tensor \[32\]\): it must be"),
        (network, {**GOOD, "new": [(X / 0, Y)]}, "a batch of group 'new' holds NaN, infinity"),
        (network, {**GOOD, "new": [(X, Y[:5])]}, "as many whole-number labels"),
        (
            network,
            {**GOOD, "new": [(X, 3)]},
            "a int: it must be a pair|a int\\): it must be a pair",
        ),
        (network, {**GOOD, "new": [(X[:, :5], Y)]}, r"'old' \[6\], 'new' \[5\]; bring all"),
        (network, {**GOOD, "new": [(X, Y), (X[:, :5], Y)]}, "samples of group 'new' differ in sh"),
        (lambda: nn.Linear(6, 4), GOOD, "nothing to examine in this Linear: it has no BatchNorm"),
        (no_statistics, GOOD, "keep no running statistics"),
        (spoiled, GOOD, "statistics of layer '4' are not finite: .* recalibrate"),
    ],
)
def test_what_cannot_be_examined_is_one_clear_line(net, data, message):
    with pytest.raises(UserError, match=message) as raised:
        diagnose(net(), data)
    assert "\n" not in str(raised.value)


def test_held_out_groups_must_be_the_same_groups():
    with pytest.raises(UserError, match=r"held_out has the groups \['new', 'old'\]"):
        diagnose(network(), GOOD, held_out=dict(reversed(GOOD.items())))
    with pytest.raises(UserError, match="held_out group 'new' has class 1, which"):
        diagnose(network(), GOOD, held_out={**GOOD, "new": [(X, Y * 0 + 1)]})


def test_groups_may_be_numbered():
    numbered_groups = dict(enumerate(GOOD.values()))
    diagnosis = diagnose(network(), numbered_groups, held_out=numbered_groups)
    assert [group.name for group in diagnosis.groups] == ["0", "1"]
    assert len(list(mixed(numbered_groups, size=32))) == 4


def test_a_group_of_one_batch_is_enough():
    diagnosis = diagnose(network(), {name: batches[:1] for name, batches in GOOD.items()})
    assert [group.samples for group in diagnosis.groups] == [32, 32]
