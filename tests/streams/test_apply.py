"""Every option reaches every stream: those of the package, of a user's opener, and ready-made ones
that are trained by a Config. What cannot be applied is refused, and a record says what was done."""

import numpy as np
import pytest
import torch

from bntricks import Config, UserError, from_arrays, open_stream, rearrange, run, train
from bntricks.streams import STREAMS, registry
from bntricks.streams.apply import apply_options
from bntricks.streams.tasks import channel_moments

SMALL = {"width": 2, "blocks": 1, "stages": 2, "epochs": 1}
ORIGINS = ("embedded", "download", "given")


def arrays(images=20, classes=6, side=12):
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (images * classes, side, side), np.uint8)
    return x, np.arange(images * classes) % classes


@pytest.fixture
def opens(monkeypatch):
    """Register what an opener returns as the stream `mine`."""
    monkeypatch.setattr(registry, "STREAMS", dict(STREAMS))
    monkeypatch.setattr(registry.OPENERS, "_entries", dict(registry.OPENERS.entries()))

    def register(opener, data="embedded", **about):
        about = {"summary": "noise", "tasks": "3 × 2", "image_size": 12, "memory": 9} | about
        registry.stream("mine", data=data, **about)(opener)

    return register


def with_test_images(info, options):
    x, y = arrays()
    return from_arrays(x, y, x[:60], y[:60], pad=2)


def without_test_images(info, options):
    return from_arrays(*arrays())


def sizes(stream):
    return [len(task.classes) for task in stream]


@pytest.mark.parametrize("data", ORIGINS)
def test_every_option_is_applied_to_a_stream_whose_opener_reads_none(opens, data, tmp_path):
    opens(with_test_images, data)

    def opened(**options):
        return open_stream("mine", data=tmp_path, **options)

    plain = opened()
    assert (plain.name, plain.memory, plain.shape, sizes(plain)) == (
        "mine",
        9,
        (1, 12, 12),
        [2] * 3,
    )
    small = opened(image_size=8)
    assert small.shape == (1, 8, 8)
    assert (small.mean, small.std) == channel_moments(small[0].train.x) != (plain.mean, plain.std)
    assert (plain.pad, small.pad) == (2, 1)
    few = opened(images_per_class=3)
    assert few.counts == (18, 60)
    assert torch.equal(few[0].train.x[:3], plain[0].train.x[:3])
    assert few.mean == channel_moments(few[0].train.x)[0]
    assert sizes(opened(classes_per_task=4)) == [4, 2]
    assert sizes(opened(first=4, increment=1)) == [4, 1, 1]
    assert opened(class_order=[5, 4, 3, 2, 1, 0]).class_names == tuple("543210")
    assert opened(tasks=[["3"], list("01245")]).class_names == tuple("301245")
    assert opened(blurry=0.2)[0].visitors == (2, 3, 4, 5)
    validated = opened(validation=0.25)
    assert validated.counts == (90, 30)
    assert validated.fingerprint != plain.fingerprint
    assert opened(image_size=8, images_per_class=3).fingerprint == plain.fingerprint


@pytest.mark.parametrize("data", ORIGINS)
def test_a_share_is_held_out_where_there_are_no_test_images_and_only_there(opens, data, tmp_path):
    opens(without_test_images, data)
    assert open_stream("mine", data=tmp_path).counts == (96, 24)
    half = open_stream("mine", data=tmp_path, held_out=0.5, images_per_class=4)
    assert half.counts == (24, 60)
    assert half.fingerprint != open_stream("mine", data=tmp_path).fingerprint
    opens(with_test_images, data)
    with pytest.raises(UserError, match="held_out: mine has test images of its own"):
        open_stream("mine", data=tmp_path, held_out=0.5)


def test_a_record_says_what_was_done(opens, tmp_path):
    opens(without_test_images, "given")
    config = Config(method="er", stream="mine", images_per_class=10, classes_per_task=3, **SMALL)
    record = run(config, data=tmp_path, out=tmp_path)
    assert record.data.images == {"train": 60, "test": 24}
    assert [len(classes) for classes in record.data.classes] == [3, 3]
    assert (record.config.images_per_class, record.config.classes_per_task) == (10, 3)


def test_an_opener_that_does_part_of_it_has_it_done_once(opens):
    x, y = arrays()

    def thrifty(info, options):
        assert (options.image_size, options.images_per_class) == (8, 5)
        assert (options.tasks, options.classes_per_task, options.held_out) == (None, None, 0.2)
        return from_arrays(x[:30, 2:10, 2:10], y[:30], x[:30, 2:10, 2:10], y[:30], pad=1)

    opens(thrifty)
    options = {"image_size": 8, "images_per_class": 5}
    stream = open_stream("mine", tasks=[["1", "0"], list("5432")], **options)
    assert torch.equal(stream[0].train.x[:5, 0], torch.from_numpy(x[1:30:6, 2:10, 2:10]))
    assert (stream.counts, stream.pad) == ((30, 30), 1)


def test_what_an_opener_registers_to_apply_is_its_own(opens, tmp_path):
    def own(info, options):
        x, y = arrays()
        count = options.classes_per_task or 1
        cut = round(options.held_out * len(x))
        return from_arrays(x[cut:], y[cut:], x[:cut], y[:cut], classes_per_task=count)

    opens(own, "given", applies=("classes_per_task", "held_out"))
    stream = open_stream("mine", data=tmp_path, classes_per_task=3, held_out=0.3, class_order=7)
    assert (sizes(stream), stream.counts) == ([3, 3], (84, 36))
    assert sizes(open_stream("mine", data=tmp_path)) == [1] * 6


def test_an_opener_is_given_the_folder_it_needs_or_is_not_called(opens, tmp_path):
    folders = []

    def opener(info, options):
        folders.append(options.data)
        return without_test_images(info, options)

    opens(opener, "given")
    with pytest.raises(UserError, match="data: the stream 'mine' needs images, "):
        open_stream("mine")
    open_stream("mine", data=str(tmp_path))
    assert folders == [tmp_path]


@pytest.mark.parametrize("returned", [None, [], np.zeros(3)])
def test_an_opener_that_returns_no_stream_is_refused_in_a_line(opens, returned):
    opens(lambda info, options: returned)
    with pytest.raises(UserError, match=r"stream mine: .* it must return a Stream"):
        open_stream("mine")


def test_a_ready_made_stream_is_trained_as_the_configuration_says():
    x, y = arrays(side=16)
    outcome = train(Config(image_size=8, classes_per_task=1, **SMALL), from_arrays(x, y, x, y))
    assert len(outcome.accuracy) == 6
    assert outcome.learner.memory.x.shape[1:] == (1, 8, 8)
    few = train(Config(images_per_class=4, held_out=0.5, **SMALL), from_arrays(x, y))
    assert few.learner.memory.offered == 24


ALL = {"image_size": 8, "images_per_class": 40, "class_order": "3", "first": 4, "increment": 3}
ALL |= {"blurry": 0.2, "validation": 0.3}


def test_a_stream_that_has_the_options_already_stays_as_it_is():
    config = Config(stream="seq-digits", **ALL)
    stream = open_stream("seq-digits", **config.rearrangement)
    assert apply_options(stream, **config.rearrangement) is stream
    assert apply_options(stream[:2], **config.rearrangement).fingerprint == stream.fingerprint
    by_hand = rearrange(open_stream("seq-digits"), class_order=3)
    assert apply_options(by_hand, class_order=3) is by_hand


@pytest.mark.parametrize(
    ("made", "wanted", "words"),
    [
        ({"class_order": 3}, {"class_order": 4}, "class_order 4: the stream was made with 3"),
        ({"images_per_class": 3}, {"images_per_class": 9}, "images_per_class 9: .* made with 3"),
        ({"image_size": 9}, {"image_size": 8}, "image_size 8: the stream was made with 9"),
        ({"first": 4, "increment": 1}, {"classes_per_task": 1}, "both classes_per_task and first"),
        ({"blurry": 0.1}, {"classes_per_task": 1}, "made with blurry, which comes after this"),
        ({"validation": 0.1}, {"images_per_class": 3}, "made with validation, which comes after"),
        ({}, {"held_out": 0.3}, "held_out: seq-digits has test images of its own"),
    ],
)
def test_what_a_ready_made_stream_cannot_become_is_refused(made, wanted, words):
    stream = open_stream("seq-digits", **made)
    with pytest.raises(UserError, match=words) as caught:
        train(Config(method="er", **wanted, **SMALL), stream)
    assert "\n" not in str(caught.value)


def test_what_an_opener_was_given_had_another_name():
    with pytest.warns(FutureWarning, match="now called OpenOptions"):
        assert registry.Options is registry.OpenOptions


def test_some_of_a_stream_s_tasks_cannot_be_rearranged():
    with pytest.raises(UserError, match="these tasks have 4 of the stream's 10 classes"):
        rearrange(open_stream("seq-digits")[:2], classes_per_task=1)


def test_an_order_of_an_order_is_not_taken_for_one_of_them():
    twice = rearrange(rearrange(open_stream("seq-digits"), class_order=3), class_order=3)
    with pytest.raises(UserError, match="made with '3, then 3'"):
        apply_options(twice, class_order=3)


def test_a_stream_is_printed_on_one_line_without_pixels():
    stream = open_stream("seq-digits")
    assert str(stream) == "Stream('seq-digits': 5 tasks, 10 classes, 1×8×8, 1442 + 355 images)"
    assert repr(stream[0]).count("of 1×8×8") == 2
    assert "tensor" not in repr(stream[0])
    assert "0 tasks" in repr(stream[5:])
