import numpy as np
import pytest
import torch

from bntricks.errors import UserError
from bntricks.streams import View, from_arrays

LABELS = np.array([5, 3, 9, 3, 5, 9, 7, 7])


def images(labels=LABELS, shape=(1, 4, 6)):
    """Images whose pixels are all ten times their label, plus their position."""
    x = np.zeros((len(labels), *shape), np.uint8)
    return x + (10 * np.asarray(labels) + np.arange(len(labels))).reshape(
        -1, *[1] * len(shape)
    ).astype(np.uint8)


def split(**options):
    return from_arrays(images(), LABELS, images(LABELS[:8]), LABELS, **options)


def test_labels_are_renumbered_in_sorted_order():
    stream = split()
    assert stream.class_names == ("3", "5", "7", "9")
    assert [task.classes for task in stream] == [(0, 1), (2, 3)]
    assert stream[0].train.y.tolist() == [0, 0, 1, 1]
    assert stream[0].train.x[:, 0, 0, 0].tolist() == [31, 33, 50, 54]
    assert stream.shape == (1, 4, 6)
    assert stream.counts == (8, 8)
    assert (stream.name, stream.pad, stream.flip, stream.official) == ("arrays", 0, False, None)


def test_tasks_list_labels_and_decide_the_numbers():
    stream = split(tasks=[[9], [3, 7, 5]], pad=2, flip=True, memory=9, name="mine")
    assert stream.class_names == ("9", "3", "7", "5")
    assert stream[1].train.y.tolist() == [1, 1, 2, 2, 3, 3]
    assert stream[1].train.x[:, 0, 0, 0].tolist() == [31, 33, 76, 77, 50, 54]
    assert (stream.pad, stream.flip, stream.memory, stream.name) == (2, True, 9, "mine")


def test_tasks_may_use_the_given_names():
    names = ["three", "five", "seven", "nine"]
    stream = split(class_names=names, tasks=[["nine"], ["three", "seven", "five"]])
    assert stream.class_names == ("nine", "three", "seven", "five")
    by_label = split(class_names=names, tasks=[[9], [np.int64(3), torch.tensor(7), 5]])
    assert by_label.class_names == stream.class_names
    assert by_label.fingerprint == stream.fingerprint


def test_strings_are_labels_too():
    words = np.array(["owl", "ant", "bee", "ant", "owl", "bee"], dtype=object)
    stream = from_arrays(images(range(6)), words, images(range(6)), words.tolist())
    assert stream.class_names == ("ant", "bee", "owl")
    assert stream[0].train.x[:, 0, 0, 0].tolist() == [11, 33, 22, 55]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((4, 6), (1, 4, 6)),
        ((3, 4, 6), (3, 4, 6)),
        ((4, 6, 3), (3, 4, 6)),
        ((4, 6, 1), (1, 4, 6)),
        ((3, 5, 3), (3, 5, 3)),
    ],
)
def test_channels_are_found_by_their_number(shape, expected):
    random = np.random.default_rng(0).integers(0, 256, (8, *shape), dtype=np.uint8)
    stream = from_arrays(random, LABELS, random, LABELS)
    assert stream.shape == expected
    nine = stream[1].train.x[-1].numpy()  # the image at 5
    if shape == (4, 6, 3):
        assert np.array_equal(nine, random[5].transpose(2, 0, 1))
    assert np.array_equal(np.sort(nine, axis=None), np.sort(random[5], axis=None))


def test_tensors_and_arrays_make_the_same_stream():
    arrays = split()
    x, y = torch.from_numpy(images()), torch.from_numpy(LABELS)
    tensors = from_arrays(x, y, x, y.to(torch.uint8))
    assert tensors.fingerprint == arrays.fingerprint
    assert torch.equal(tensors[1].train.x, arrays[1].train.x)


def test_the_stream_has_its_own_copy():
    x = images()
    stream = from_arrays(x, LABELS, x, LABELS)
    x[:] = 0
    assert stream[0].train.x.max() == 54


def test_pixels_labels_names_and_tasks_all_count_for_the_fingerprint():
    other = images()
    other[0, 0, 0, 0] += 1
    others = [
        from_arrays(other, LABELS, images(), LABELS),
        from_arrays(images(), LABELS[::-1], images(), LABELS),
        split(class_names=["a", "b", "c", "d"]),
        split(classes_per_task=1),
    ]
    prints = {stream.fingerprint for stream in [split(), *others]}
    assert len(prints) == 5


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"x_train": images() / 255}, ["x_train", "float32", "x_test", "uint8", "alike"]),
        ({"x_test": images().astype(np.int32)}, ["x_test is int32", "uint8"]),
        ({"x_train": np.zeros((8, 2, 5, 6), np.uint8)}, ["[8, 2, 5, 6]", "channels='first'"]),
        ({"x_train": np.zeros(8)}, ["[8]"]),
        ({"x_train": np.full((8, 6), np.nan)}, ["NaN"]),
        ({"x_train": images()[:0], "y_train": LABELS[:0]}, ["no images"]),
        ({"x_train": images()[:5]}, ["5 samples", "8 labels"]),
        ({"x_test": images(shape=(1, 4, 7))}, ["[1, 4, 6]", "[1, 4, 7]"]),
        ({"y_train": LABELS / 2}, ["y_train is float64", "integers or strings"]),
        ({"y_train": LABELS[:, None]}, ["[8, 1]"]),
        ({"y_test": LABELS.astype(str)}, ["both"]),
        ({"y_test": np.full(8, 4)}, ["4", "y_train does not"]),
        ({"y_test": np.array([3, 5, 7, 7, 7, 7, 7, 7])}, ["class 9", "no test samples"]),
        ({"class_names": ["a"]}, ["1 names for 4 classes"]),
        ({"classes_per_task": 0}, ["classes_per_task 0: "]),
        ({"tasks": [[3, 5], [7]]}, ["not in any task: '9'"]),
        ({"tasks": [[3, 5], [7, 9, 3]]}, ["'3'", "more than once"]),
        ({"tasks": [[3, 5], [7, 9, 1]]}, ["'1'"]),
        ({"tasks": ["3", "5"]}, ["list of lists"]),
        ({"tasks": [[3]], "classes_per_task": 1}, ["leave one of them out"]),
    ],
)
def test_what_cannot_be_a_stream_is_told_in_one_line(change, parts):
    whole = {"x_train": images(), "y_train": LABELS, "x_test": images(), "y_test": LABELS}
    with pytest.raises(UserError) as caught:
        from_arrays(**(whole | change))
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


@pytest.mark.parametrize(
    ("shape", "channels", "expected"),
    [
        ((13, 6, 6), None, (13, 6, 6)),
        ((6, 6, 13), None, (13, 6, 6)),
        ((4, 5, 6), "first", (4, 5, 6)),
        ((4, 5, 6), "last", (6, 4, 5)),
    ],
)
def test_any_number_of_channels_is_found_beside_a_square_or_named(shape, channels, expected):
    x = np.random.default_rng(0).integers(0, 256, (8, *shape), dtype=np.uint8)
    stream = from_arrays(x, LABELS, x, LABELS, channels=channels)
    assert stream.shape == expected
    assert len(stream.mean) == len(stream.std) == expected[0]


def test_features_are_network_inputs_as_they_are():
    x = np.random.default_rng(0).normal(size=(8, 5))
    stream = from_arrays(x, LABELS, x, LABELS)
    assert not stream.has_images
    assert (stream.shape, stream.mean, stream[0].train.x.dtype) == ((5,), (), torch.float32)
    view = View(stream.mean, stream.std, pad=4, flip=True)
    first = stream[0].train.x
    assert torch.equal(view(first, torch.Generator()), torch.from_numpy(x[[1, 3, 0, 4]]).float())
    whole = from_arrays(np.round(x).astype(int), LABELS)
    assert torch.equal(whole[0].train.x, first.round())


def test_features_count_for_the_fingerprint_and_so_does_their_kind():
    x = np.zeros((8, 3, 4, 4))
    kinds = [from_arrays(each, LABELS, each, LABELS) for each in (x, x + 1, x.astype(np.uint8))]
    assert len({stream.fingerprint for stream in kinds}) == 3
    assert split().fingerprint == "3ed919500eb1c963"
