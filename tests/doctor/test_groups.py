"""Groups become balanced batches and disjoint halves; what cannot be used is one clear line."""

from itertools import islice

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from bntricks import UserError, diagnose, mixed
from bntricks.doctor.groups import halves, rebatched, survey
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


@given(sizes)
def test_halves_are_disjoint_whole_and_the_same_on_every_pass(counts):
    data = {"a": numbered(counts)}
    one, other = ([x for x, _ in half["a"]()] for half in halves(data))
    samples = torch.cat([*one, *other]).flatten()
    assert sorted(samples.tolist()) == list(range(sum(counts)))
    assert abs(sum(map(len, one)) - sum(map(len, other))) <= 1
    again = torch.cat([x for x, _ in halves(data)[0]["a"]()])
    assert torch.equal(torch.cat(one), again)


@given(sizes, st.integers(1, 12))
def test_rebatched_inputs_are_all_there_in_order_without_a_small_last_batch(counts, size):
    made = list(rebatched(numbered(counts), size))
    assert torch.cat(made).flatten().tolist() == list(range(sum(counts)))
    if sum(counts) >= size:
        assert all(size <= len(part) < 2 * size for part in made)
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


def test_groups_weigh_by_their_classes():
    old = [(torch.zeros(30, 1), torch.arange(30) % 3)] * 4
    new = [(torch.ones(30, 1), torch.full((30,), 3))] * 4
    for part in islice(mixed({"old": old, "new": new}, size=16), 5):
        assert part.mean().item() == 0.25


def test_a_survey_counts_samples_classes_and_how_varied_batches_are():
    by_class = [(torch.zeros(8, 1), torch.full((8,), k)) for k in (2, 5)]
    varied = [(torch.zeros(8, 1), torch.arange(8) % 2)]
    first, second = survey({"sorted": by_class, "varied": varied})
    assert (first.samples, first.classes, first.variety) == (16, (2, 5), 0.5)
    assert (second.samples, second.classes, second.variety) == (8, (0, 1), 1.0)


def test_batches_of_one_class_each_are_remarked():
    data = groups(batches=4)
    many = [(x[y == k], y[y == k]) for x, y in data["old"] for k in (0, 1)]
    tasks = {"old": many, "new": data["new"]}
    assert diagnose(network(), tasks).notes == ()  # one of two classes is half
    eight = [
        (x[y == k], y[y == k] + 4 * (i % 2)) for i, (x, y) in enumerate(data["old"]) for k in (0, 1)
    ]
    wide = nn.Sequential(*network()[:-1], nn.Linear(10, 8))
    (note,) = diagnose(wide, {"old": eight, "new": data["new"]}).notes
    assert "batches of 'old' hold few classes each" in note


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
