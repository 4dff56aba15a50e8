"""Validation images: cut from the training images, alike for all seeds, and never a test image."""

import pytest
import torch

from bntricks import Config, UserError, open_stream
from bntricks.runs.resolve import resolve
from bntricks.streams.apply import apply_options


def with_validation(stream, share):
    return apply_options(stream, validation=share)


@pytest.fixture(scope="module")
def digits():
    return open_stream("seq-digits", images_per_class=30)


def rows(images):
    return {(x.numpy().tobytes(), y) for x, y in zip(images.x, images.y.tolist(), strict=True)}


def test_every_class_gives_its_share_and_no_image_is_in_both_parts(digits):
    cut = with_validation(digits, 0.1)
    for before, after in zip(digits, cut, strict=True):
        assert torch.bincount(after.test.y)[list(after.classes)].tolist() == [3, 3]
        assert len(after.train) + len(after.test) == len(before.train)
        assert not rows(after.train) & rows(after.test)
        assert rows(after.train) | rows(after.test) == rows(before.train)


def test_no_test_image_is_seen(digits):
    cut = with_validation(digits, 0.5)
    test_images = set().union(*(rows(task.test) for task in digits))
    seen = set().union(*(rows(part) for task in cut for part in (task.train, task.test)))
    assert not (seen & test_images) - set().union(*(rows(task.train) for task in digits))


def test_the_cut_is_part_of_the_fingerprint_and_of_the_identity(digits):
    prints = {with_validation(digits, share).fingerprint for share in (0.1, 0.2)}
    assert len(prints | {digits.fingerprint}) == 3
    small = {"stream": "seq-digits", "images_per_class": 30}
    (plain, without), (cut, config) = (
        resolve(Config(validation=share, **small), None) for share in (None, 0.1)
    )
    assert without.identity(plain.fingerprint) != config.identity(cut.fingerprint)
    assert cut.counts == (270, 30)


def test_a_class_keeps_an_image_to_train_on_and_gets_one_to_be_tested_on(digits):
    few = open_stream("seq-digits", images_per_class=3)
    for share, held_out in ((0.01, 1), (0.99, 2)):
        task = with_validation(few, share)[0]
        assert torch.bincount(task.test.y).tolist() == [held_out, held_out]
    with pytest.raises(UserError, match="one training image"):
        with_validation(open_stream("seq-digits", images_per_class=1), 0.5)
