import numpy as np
import torch
from sklearn.datasets import load_digits

from bntricks.streams import open_stream
from bntricks.streams.tasks import channel_moments


def test_five_tasks_of_two_digits_with_every_fifth_image_held_out():
    stream = open_stream("seq-digits")
    assert [task.classes for task in stream] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert stream.shape == (1, 8, 8)
    assert stream.counts == (1442, 355)
    assert (stream.memory, stream.pad, stream.flip) == (100, 1, False)
    assert stream.official is None
    assert not stream.cut_down
    pixels, labels = load_digits(return_X_y=True)
    threes = np.rint(pixels[labels == 3] * 255 / 16).astype(np.uint8)
    test = stream[1].test
    assert np.array_equal(test.x[test.y == 3].flatten(1).numpy(), threes[4::5])
    train = stream[1].train
    kept = np.delete(threes, np.arange(4, len(threes), 5), axis=0)
    assert np.array_equal(train.x[train.y == 3].flatten(1).numpy(), kept)


def test_mean_and_deviation_are_those_of_the_first_task_alone():
    stream = open_stream("seq-digits")
    first = stream[0].train.x.double() / 255
    every = torch.cat([task.train.x for task in stream]).double() / 255
    assert abs(stream.mean[0] - first.mean().item()) < 1e-6
    assert abs(stream.std[0] - first.std(correction=0).item()) < 1e-6
    assert abs(stream.mean[0] - every.mean().item()) > 1e-3


def test_mean_and_deviation_count_every_image_of_a_large_task():
    x = torch.cat([torch.full((1024, 2, 2, 2), 10), torch.full((476, 2, 2, 2), 200)]).byte()
    mean, std = channel_moments(x)
    assert mean == (round(x.double().mean().item() / 255, 6),) * 2
    assert std == (round(x.double().std(correction=0).item() / 255, 6),) * 2


def test_fewer_images_and_another_size_keep_the_fingerprint_and_the_test_set():
    whole = open_stream("seq-digits")
    small = open_stream("seq-digits", image_size=16, images_per_class=7)
    assert small.fingerprint == whole.fingerprint
    assert small.shape == (1, 16, 16)
    assert small.counts == (70, 355)
    assert small.pad == 2
    # Enlarging by two repeats each pixel.
    assert torch.equal(small[2].test.x[..., ::2, 1::2], whole[2].test.x)
    of_one = whole[0].train.x[whole[0].train.y == 1][:7]
    assert torch.equal(small[0].train.x[small[0].train.y == 1][..., ::2, ::2], of_one)
