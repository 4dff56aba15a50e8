"""Runs on streams that were made in Python: records like all others."""

import numpy as np
import pytest

from bntricks import Config, UserError, from_arrays, load_records, run, write_report
from bntricks.streams import open_stream

VECTORS = {"method": "er-bnt", "net": "mlp", "width": 8, "epochs": 2}


def vectors(seed=0):
    y = np.arange(96) % 4
    x = np.random.default_rng(seed).normal(size=(96, 6)) + y[:, None]
    return from_arrays(x, y, name="vectors")


def test_a_run_on_features_is_recorded_and_reported_like_any_other(tmp_path):
    record = run(Config(**VECTORS), stream=vectors(), out=tmp_path / "runs", save="end")
    assert (record.stream, record.data.given) == ("vectors", True)
    assert record.data.images == {"train": 76, "test": 20}  # a share of each class is held out
    assert run(Config(**VECTORS), stream=vectors(), out=tmp_path / "runs").already_there
    assert not run(Config(**VECTORS), stream=vectors(1), out=tmp_path / "runs").already_there
    [row, _] = sorted(load_records(tmp_path / "runs").rows(), key=lambda row: -row["acc"])
    assert row["stream"] == "vectors"
    page = write_report(load_records(record.path), tmp_path / "report")
    assert "made in Python" in page.read_text()


def test_options_of_a_stream_apply_to_a_given_one(tmp_path):
    config = Config(**VECTORS, classes_per_task=1, images_per_class=10)
    record = run(config, stream=vectors(), out=tmp_path)
    assert record.data.classes == ((0,), (1,), (2,), (3,))
    assert record.data.images["train"] == 40


def test_a_stream_that_was_opened_is_the_one_of_its_name(tmp_path):
    small = {"method": "sgd", "width": 2, "stages": 2, "epochs": 1, "images_per_class": 12}
    own = run(Config(**small), stream=open_stream("seq-digits"), out=tmp_path)
    named = run(Config(stream="seq-digits", **small), out=tmp_path)
    assert named.already_there
    assert own.data.given is None


@pytest.mark.parametrize(
    ("options", "asked", "message"),
    [
        ({"net": "resnet"}, {}, "net: it is for images, and a sample has the shape"),
        ({"image_size": 16}, {}, "image_size: its samples are not images"),
        ({"stream": "seq-digits"}, {}, "stream seq-digits: the stream given is named vectors"),
        ({"method": "lwf", "as_published": True}, {}, "as_published: those mistakes were about"),
        ({}, {"probe": "overlap"}, "probe overlap: it shows images"),
    ],
)
def test_what_is_only_for_images_is_refused_before_training(tmp_path, options, asked, message):
    with pytest.raises(UserError) as refusal:
        run(Config(**VECTORS | options), stream=vectors(), out=tmp_path, **asked)
    assert str(refusal.value).startswith(message)
    assert not list(tmp_path.iterdir())
