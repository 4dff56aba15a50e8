import csv
import gzip
import hashlib
import struct

import numpy as np
import pytest
import torch

from bntricks.errors import UserError
from bntricks.streams import open_stream
from bntricks.streams.sources import fashion

TRAIN_IMAGES, TRAIN_LABELS = fashion.TRAIN
TEST_IMAGES, TEST_LABELS = fashion.TEST
MIXED = [7, 2, 9, 0, 4, 1, 8, 3, 6, 5]


def idx(values):
    """An array as an idx file of bytes."""
    header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


def images_of(labels, seed):
    """Noise, with the label as the first pixel."""
    x = np.random.default_rng(seed).integers(0, 256, (len(labels), 28, 28), dtype=np.uint8)
    x[:, 0, 0] = labels
    return x


@pytest.fixture
def whole(tmp_path):
    """The four official files, small, unpacked."""
    folder = tmp_path / "data"
    folder.mkdir()
    for (images, labels), y in ((fashion.TRAIN, MIXED * 3), (fashion.TEST, MIXED)):
        (folder / images).write_bytes(idx(images_of(y, seed=len(y))))
        (folder / labels).write_bytes(idx(np.array(y)))
    return folder


def zip_up(file):
    file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()


def fails(data, *parts):
    with pytest.raises(UserError) as caught:
        open_stream("seq-fashion", data=data)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def test_the_embedded_cut_has_ten_kinds_of_clothing_two_in_each_task():
    stream = open_stream("seq-fashion")
    assert [task.classes for task in stream] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert stream.class_names[:2] == ("T-shirt/top", "Trouser")
    assert stream.class_names[8:] == ("Bag", "Ankle boot")
    assert stream.shape == (1, 28, 28)
    assert stream.counts == (2000, 2000)
    assert stream.official == (60_000, 10_000)
    assert stream.cut_down
    assert (stream.pad, stream.flip, stream.memory) == (2, True, 200)
    for task in stream:
        for images in (task.train, task.test):
            assert torch.bincount(images.y).tolist()[-2:] == [200, 200]


def test_the_embedded_images_are_clothing_and_no_two_are_the_same():
    stream = open_stream("seq-fashion")
    everything = torch.cat([part.x for task in stream for part in (task.train, task.test)])
    assert len(everything.unique(dim=0)) == 4000
    pixels = everything.double() / 255
    assert abs(pixels.mean().item() - stream.mean[0]) < 0.01
    assert abs(pixels.std().item() - stream.std[0]) < 0.01
    # Trousers have two legs: dark between them, where a T-shirt is bright.
    shirts, trousers = (stream[0].test.x[stream[0].test.y == k].double() for k in (0, 1))
    assert shirts[:, 0, 20:, 13:15].mean() > 3 * trousers[:, 0, 20:, 13:15].mean()


@pytest.fixture(scope="module")
def origins():
    """The list of the embedded images' places in the official files, by part."""
    with (fashion.EMBEDDED / "origins.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {part: [row for row in rows if row["part"] == part] for part in ("train", "test")}


@pytest.mark.parametrize(("part", "files"), [("train", fashion.TRAIN), ("test", fashion.TEST)])
def test_every_embedded_image_is_the_one_that_the_list_of_origins_names(origins, part, files):
    images, labels = (
        gzip.decompress((fashion.EMBEDDED / f"{name}.gz").read_bytes()) for name in files
    )
    pixels, classes = images[16:], labels[8:]
    assert len(classes) == len(origins[part]) == 2000
    for place, row in enumerate(origins[part]):
        image = pixels[784 * place : 784 * (place + 1)]
        assert hashlib.sha256(image).hexdigest()[:16] == row["digest"], row
        assert classes[place] == int(row["class"]), row


@pytest.mark.parametrize(
    ("part", "first_labels"),
    [("train", [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]), ("test", [9, 2, 1, 1, 6, 1, 4, 6, 5, 7])],
)
def test_the_list_of_origins_has_the_first_images_of_each_class(origins, part, first_labels):
    """Up to where the first class has its 200, no official image may be missing."""
    by_class = {label: [] for label in range(10)}
    for row in origins[part]:
        by_class[int(row["class"])].append(int(row["index"]))
    label_at = {index: label for label, indices in by_class.items() for index in indices}
    assert [label_at[index] for index in range(10)] == first_labels  # as published
    assert len(label_at) == 2000
    for indices in by_class.values():
        assert indices == sorted(indices)
        assert len(indices) == 200
    full = min(indices[-1] for indices in by_class.values())
    assert full > 1000
    assert label_at.keys() >= set(range(full + 1))


def test_the_cut_is_small_and_carries_its_licence():
    files = {path.name: path for path in fashion.EMBEDDED.iterdir()}
    assert max(path.stat().st_size for path in files.values()) < 2**20
    licence = files["LICENSE"].read_text(encoding="utf-8")
    assert "the first 200 training and the first 200 test images of each class" in licence
    assert "Copyright © 2017 Zalando SE" in licence
    assert "shall be included in all copies" in licence


def test_fewer_images_and_a_smaller_size_keep_the_fingerprint_and_the_test_set():
    native = open_stream("seq-fashion")
    small = open_stream("seq-fashion", image_size=14, images_per_class=7)
    assert small.fingerprint == native.fingerprint
    assert (small.shape, small.counts, small.pad) == ((1, 14, 14), (70, 2000), 1)
    means = native[3].test.x.double().unfold(2, 2, 2).unfold(3, 2, 2).mean((-1, -2))
    assert torch.equal(small[3].test.x, means.round().to(torch.uint8))


def test_the_whole_set_is_read_from_the_official_files(whole):
    stream = open_stream("seq-fashion", data=whole)
    assert stream.counts == (30, 10)
    assert stream.class_names == fashion.NAMES
    for task in stream:
        for images in (task.train, task.test):
            assert torch.equal(images.x[:, 0, 0, 0].long(), images.y)
    coats = images_of(MIXED * 3, seed=30)[np.array(MIXED * 3) == 4]
    train = stream[2].train
    assert np.array_equal(train.x[train.y == 4][:, 0].numpy(), coats)


@pytest.mark.parametrize("place", ["fashion-mnist", "FashionMNIST/raw"])
def test_packed_and_unpacked_files_are_the_same_data_wherever_they_lie(whole, tmp_path, place):
    unpacked = open_stream("seq-fashion", data=whole).fingerprint
    zip_up(whole / TRAIN_IMAGES)
    zip_up(whole / TEST_LABELS)
    moved = tmp_path / "all data" / place
    moved.parent.mkdir(parents=True)
    whole.rename(moved)
    assert open_stream("seq-fashion", data=tmp_path / "all data").fingerprint == unpacked


def test_the_environment_s_folder_is_used_if_it_holds_the_set(whole, monkeypatch, tmp_path):
    monkeypatch.setenv("BNT_DATA", str(whole))
    assert open_stream("seq-fashion").counts == (30, 10)
    (tmp_path / "for another set").mkdir()
    monkeypatch.setenv("BNT_DATA", str(tmp_path / "for another set"))
    assert open_stream("seq-fashion").counts == (2000, 2000)


def test_a_given_folder_without_the_set_is_refused(tmp_path):
    fails(tmp_path, str(tmp_path), TRAIN_IMAGES, TEST_LABELS, "embedded cut")
    fails(tmp_path / "nowhere", "nowhere", "does not exist")


@pytest.mark.fault
def test_a_missing_file_is_named(whole):
    (whole / TEST_LABELS).unlink()
    fails(whole, "lacks", TEST_LABELS)


@pytest.mark.fault
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda raw: raw[:-1], ["cut off", "30 × 28 × 28", "23,519 follow"]),
        (lambda raw: raw + b"\0", ["too long", "23,521 follow"]),
        (lambda raw: b"\x89PNG" + raw[4:], ["does not begin like an idx file", "3 axes"]),
        (lambda raw: raw[:9], ["does not begin like an idx file"]),
        (lambda raw: b"", ["does not begin like an idx file"]),
        (lambda raw: raw[:4] + b"\xff" * 12 + raw[16:], ["4294967295 × 4294967295"]),
        (lambda raw: idx(np.zeros((30, 14, 56))), ["14×56, not 28×28"]),
        (lambda raw: idx(np.zeros((29, 28, 28))), ["29 images", "30 labels"]),
    ],
)
def test_damaged_images_are_named_before_any_training(whole, damage, words):
    file = whole / TRAIN_IMAGES
    file.write_bytes(damage(file.read_bytes()))
    fails(whole, TRAIN_IMAGES, *words)


@pytest.mark.fault
def test_a_label_out_of_range_is_named_with_its_place(whole):
    (whole / TEST_LABELS).write_bytes(idx(np.array([*MIXED[:-1], 10])))
    fails(whole, TEST_LABELS, "label 10 in place 9", "0 to 9")


@pytest.mark.fault
def test_a_class_without_images_is_named(whole):
    (whole / TEST_LABELS).write_bytes(idx(np.array([0, *MIXED[1:]])))
    fails(whole, "'Sneaker'", "no test images")


@pytest.mark.fault
def test_a_damaged_gz_is_named(whole):
    zip_up(whole / TRAIN_LABELS)
    packed = whole / f"{TRAIN_LABELS}.gz"
    packed.write_bytes(packed.read_bytes()[:-9])
    fails(whole, packed.name, "cannot read")
    packed.write_bytes(b"not packed at all")
    fails(whole, packed.name, "cannot read")


@pytest.mark.fault
def test_a_gz_that_unpacks_without_end_is_given_up(whole, monkeypatch):
    monkeypatch.setattr(fashion, "FILE_LIMIT", 50_000)
    (whole / TRAIN_LABELS).unlink()
    (whole / f"{TRAIN_LABELS}.gz").write_bytes(gzip.compress(bytes(10_000_000)))
    fails(whole, f"{TRAIN_LABELS}.gz", "unpacks to more than 50,000 bytes")
