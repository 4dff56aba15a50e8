"""The same images under another protocol: class order, sizes of tasks, blurry boundaries."""

import numpy as np
import pytest
import torch

from bntricks.errors import UserError
from bntricks.streams import from_arrays, open_stream, rearrange
from bntricks.streams.tasks import channel_moments

pytestmark = pytest.mark.law


@pytest.fixture(scope="module")
def digits():
    return open_stream("seq-digits", images_per_class=20)


def sizes(stream):
    return [len(task.classes) for task in stream]


def images(stream, part):
    """All images of a stream, as bytes under the names of their classes."""
    return sorted(
        (stream.class_names[label], x.numpy().tobytes())
        for task in stream
        for x, label in zip(getattr(task, part).x, getattr(task, part).y.tolist(), strict=True)
    )


CHOICES = {
    "by seed": {"class_order": 3},
    "by list": {"class_order": list("9876543210")},
    "growing": {"first": 4, "increment": 3},
    "of one size": {"classes_per_task": 5},
    "as listed": {"tasks": [list("89"), list("0123456"), ["7"]]},
    "blurry": {"blurry": 0.25},
    "seed, growing, blurry": {"class_order": 1, "first": 6, "increment": 3, "blurry": 0.1},
}


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_every_image_stays_one_of_its_class(digits, choice):
    new = rearrange(digits, **choice)
    for part in ("train", "test"):
        assert images(new, part) == images(digits, part)
    assert [label for task in new for label in task.classes] == list(range(10))
    for task in new:
        assert set(task.test.y.tolist()) == set(task.classes)


def test_each_choice_has_a_fingerprint_of_its_own(digits):
    streams = [rearrange(digits, **choice) for choice in (*CHOICES.values(), {"blurry": 0.3})]
    assert len({digits.fingerprint, *(each.fingerprint for each in streams)}) == 9
    assert rearrange(digits, class_order=3).fingerprint == streams[0].fingerprint


def test_a_choice_that_changes_nothing_leaves_the_stream_as_it_is(digits):
    assert rearrange(digits) is digits
    assert rearrange(digits, class_order=range(10), classes_per_task=2) is digits


def test_a_seed_gives_the_order_that_others_have():
    """Seed 1993 on a hundred classes: the order that iCaRL made customary."""
    x, y = np.zeros((100, 4, 4), np.uint8), np.arange(100)
    stream = from_arrays(x, y, x, y, classes_per_task=10)
    new = rearrange(stream, class_order=1993)
    assert new.class_names[:8] == ("68", "56", "78", "8", "23", "84", "90", "65")
    assert sizes(new) == [10] * 10


def test_classes_are_listed_by_name_or_by_number():
    x, y = np.zeros((6, 4, 4), np.uint8), np.arange(6) % 3
    stream = from_arrays(x, y, x, y, class_names=["ant", "bee", "cat"])
    for order in (["cat", "ant", "bee"], [2, 0, 1], ["2", "0", "1"]):
        assert rearrange(stream, class_order=order).class_names == ("cat", "ant", "bee")
    assert sizes(rearrange(stream, tasks=[[2], [0, 1]])) == [1, 2]
    assert sizes(rearrange(stream, tasks=[["cat"], ["ant", "bee"]])) == [1, 2]


def test_a_large_first_task_is_followed_by_increments_and_what_is_left(digits):
    assert sizes(rearrange(digits, first=5, increment=2)) == [5, 2, 2, 1]
    assert sizes(rearrange(digits, first=10, increment=2)) == [10]
    assert sizes(open_stream("seq-digits", first=4, increment=6)) == [4, 6]


def test_a_class_order_keeps_the_sizes_of_the_tasks(digits):
    unequal = rearrange(digits, first=5, increment=2)
    assert sizes(rearrange(unequal, class_order=7)) == [5, 2, 2, 1]


def test_every_stream_takes_tasks_as_they_are_listed():
    stream = open_stream("seq-digits", tasks=[["3", "1", "4"], list("0256789")])
    assert stream.class_names[:3] == ("3", "1", "4")
    assert sizes(stream) == [3, 7]


def test_blurry_tasks_share_out_that_much_of_every_class(digits):
    new = rearrange(digits, blurry=0.2)
    for home, task in enumerate(new):
        for label in task.classes:
            counts = [int((other.train.y == label).sum()) for other in new]
            assert counts.pop(home) == 16
            assert counts == [1, 1, 1, 1]
        assert set(task.visitors) == set(range(10)) - set(task.classes)
    assert not any(task.visitors for task in digits)


def test_one_image_of_a_class_always_stays(digits):
    new = rearrange(digits, blurry=0.999)
    assert all((task.train.y == label).sum() == 1 for task in new for label in task.classes)


def test_mean_and_deviation_are_those_of_the_task_that_now_comes_first(digits):
    new = rearrange(digits, class_order=3)
    assert (new.mean, new.std) == channel_moments(new[0].train.x) != (digits.mean, digits.std)
    fashion = open_stream("seq-fashion", images_per_class=2)  # which has published ones
    assert rearrange(fashion, class_order=3).mean == fashion.mean


def test_classes_in_their_own_order_are_not_copied():
    stream = open_stream("seq-fashion", images_per_class=None)
    new = rearrange(stream, first=4, increment=3)
    storage = stream[0].train.x.untyped_storage().data_ptr()
    assert {task.train.x.untyped_storage().data_ptr() for task in new} == {storage}


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"first": 5}, "first: a large first task"),
        ({"increment": 5}, "increment: a large first task"),
        ({"first": 11, "increment": 1}, "first 11: there are 10 classes"),
        ({"first": 0, "increment": 1}, "first 0: it must be at least 1"),
        ({"classes_per_task": 0}, "classes_per_task 0: it must be at least 1"),
        ({"classes_per_task": 2, "first": 2, "increment": 2}, "both classes_per_task and first"),
        ({"class_order": 3, "tasks": [["0"]]}, "both tasks and class_order"),
        ({"class_order": -1}, "class_order -1: a seed"),
        ({"class_order": "cat"}, "there is no class 'cat'"),
        ({"class_order": list("0123")}, "each of the 10 classes once, .* '4' is missing"),
        ({"class_order": list("01234567899")}, "some are listed twice"),
        ({"tasks": [["0"], ["1"]]}, "not in any task: '2'"),
        ({"blurry": 1.0}, "blurry 1.0: the share"),
        ({"classes_per_task": 10, "blurry": 0.1}, "blurry 0.1: there is one task"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(digits, choice, words):
    with pytest.raises(UserError, match=words) as caught:
        rearrange(digits, **choice)
    assert "\n" not in str(caught.value)


def test_contradictions_are_noticed_before_anything_is_read():
    with pytest.raises(UserError, match="both tasks and first"):
        open_stream("folder", data="nowhere", tasks=[["a"]], first=1, increment=1)


def test_labels_stay_on_the_host_as_whole_numbers(digits):
    for task in rearrange(digits, blurry=0.2, class_order=5):
        assert task.train.y.dtype == torch.int64
        assert len(task.train.x) == len(task.train.y)
