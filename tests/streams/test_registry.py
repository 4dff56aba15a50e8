import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from bntricks.errors import UserError
from bntricks.streams import STREAMS, from_arrays, open_stream, registry


def fails(name, *parts, **options):
    with pytest.raises(UserError) as caught:
        open_stream(name, **options)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def test_the_paper_s_streams_are_all_there():
    about = {k.name: (k.tasks, k.image_size, k.memory, k.official) for k in STREAMS.values()}
    assert about == {
        "seq-digits": ("5 × 2", 8, 100, None),
        "seq-fashion": ("5 × 2", 28, 200, (60_000, 10_000)),
        "seq-cifar10": ("5 × 2", 32, 500, (50_000, 10_000)),
        "seq-cifar100": ("10 × 10", 32, 1000, (50_000, 10_000)),
        "seq-cifar100-20": ("20 × 5", 32, 1000, (50_000, 10_000)),
        "seq-tiny-imagenet": ("10 × 20", 64, 2000, (100_000, 10_000)),
        "seq-tiny-imagenet-20": ("20 × 10", 64, 2000, (100_000, 10_000)),
        "folder": ("2 classes a task, or as listed", 32, 500, None),
        "csv": ("2 classes a task, or as listed", 32, 500, None),
    }
    assert next(iter(STREAMS)) == "seq-digits"  # lists begin with what needs no download
    assert list(STREAMS)[-2:] == ["folder", "csv"]
    assert {k.name for k in STREAMS.values() if k.data == "given"} == {"folder", "csv"}
    embedded = {k.name for k in STREAMS.values() if k.data == "embedded"}
    assert embedded == {"seq-digits", "seq-fashion"}


def test_what_is_known_of_a_stream_can_be_written_as_json():
    for name, known in STREAMS.items():
        assert json.loads(json.dumps(asdict(known)))["name"] == name


def test_an_unknown_stream_gets_a_suggestion_and_the_list():
    fails("seq-cifar-10", "unknown stream 'seq-cifar-10': did you mean seq-cifar10, seq-cifar100")


def test_a_name_like_no_other_gets_only_the_list():
    fails("zzz", "unknown stream 'zzz': there are seq-", "seq-fashion")


@pytest.mark.parametrize("size", [7, 0, -3, 513])
def test_an_image_size_out_of_range_is_refused(size):
    fails("seq-digits", f"image_size {size}: ", "8 to 512", image_size=size)


@pytest.mark.parametrize("count", [0, -1])
def test_at_least_one_image_a_class_is_needed(count):
    fails("seq-digits", f"images_per_class {count}: ", "at least 1", images_per_class=count)


def test_test_images_of_a_stream_s_own_cannot_be_chosen_anew():
    fails("seq-digits", "held_out: seq-digits has test images of its own", held_out=0.3)


def test_the_default_share_is_no_wish_for_another_split():
    assert len(open_stream("seq-digits", held_out=0.2)) == 5


@pytest.fixture
def own_stream(monkeypatch):
    """A stream that somebody else's module registers."""
    monkeypatch.setattr(registry, "STREAMS", dict(STREAMS))
    monkeypatch.setattr(registry.OPENERS, "_entries", dict(registry.OPENERS.entries()))

    @registry.stream(
        "mine", summary="noise", tasks="2 × 1", image_size=8, memory=9, data="embedded"
    )
    def mine(info, options):
        x = np.random.default_rng(0).integers(0, 256, (6, 8, 8), np.uint8)
        y = np.arange(6) % 2
        return from_arrays(x, y, x, y, classes_per_task=1, name=info.name, memory=info.memory)


@pytest.mark.usefixtures("own_stream")
def test_a_stream_of_ones_own_is_opened_and_listed_like_the_others():
    assert list(registry.STREAMS)[:4] == ["seq-digits", "seq-fashion", "mine", "seq-cifar10"]
    stream = open_stream("mine")
    assert (stream.name, len(stream), stream.memory) == ("mine", 2, 9)
    fails("mine", "images_per_class 0: ", images_per_class=0)
    assert open_stream("mine", tasks=[["1"], ["0"]]).class_names == ("1", "0")
    assert open_stream("mine", class_order=[1, 0]).class_names == ("1", "0")


def test_errors_name_options_and_never_flags():
    with pytest.raises(UserError) as caught:
        open_stream("seq-cifar10", data="nowhere")
    assert caught.value.option == "data"
    assert "--" not in str(caught.value)
    assert caught.value.worded("--{}".format).startswith("--data: the data folder nowhere")


def test_every_source_is_imported_without_a_list():
    from bntricks.streams import sources

    names = {path.stem for path in Path(sources.__path__[0]).glob("[!_]*.py")}
    assert names <= set(vars(sources))
