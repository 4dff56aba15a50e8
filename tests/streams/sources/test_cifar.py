import re

import numpy as np
import pytest
import torch

from bntricks.errors import UserError
from bntricks.streams import STREAMS, open_stream


def test_cifar10_comes_in_five_tasks_by_ascending_label(tmp_path, official):
    official.cifar10(tmp_path)
    stream = open_stream("seq-cifar10", data=tmp_path)
    assert [task.classes for task in stream] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert stream.class_names == tuple(f"kind{k}" for k in range(10))
    assert stream.shape == (3, 32, 32)
    assert stream.counts == (70, 10)
    assert stream.official == (50_000, 10_000)
    assert stream.cut_down
    assert (stream.pad, stream.flip, stream.memory) == (4, True, 500)
    assert stream.mean == (0.4914, 0.4822, 0.4465)
    for task in stream:
        for images in (task.train, task.test):
            assert images.x.dtype == torch.uint8
            assert images.y.dtype == torch.int64
            assert torch.equal(images.x[:, 0, 0, 0].long(), images.y)
            assert set(images.y.tolist()) == set(task.classes)


def test_pixels_keep_their_planes_and_their_order_within_a_class(tmp_path, official):
    folder = official.cifar10(tmp_path)
    rows = np.frombuffer((folder / "data_batch_1.bin").read_bytes(), np.uint8).reshape(-1, 3073)
    fours = rows[rows[:, 0] == 4][:, 1:].reshape(-1, 3, 32, 32)
    last = np.frombuffer((folder / "data_batch_5.bin").read_bytes(), np.uint8).reshape(-1, 3073)
    four = last[last[:, 0] == 4][:, 1:].reshape(-1, 3, 32, 32)
    task = open_stream("seq-cifar10", data=folder)[2]
    here = task.train.x[task.train.y == 4].numpy()
    assert len(fours) == 3
    assert np.array_equal(here[:3], fours)
    assert np.array_equal(here[-1:], four)


@pytest.mark.parametrize(
    ("name", "tasks", "each"), [("seq-cifar100", 10, 10), ("seq-cifar100-20", 20, 5)]
)
def test_cifar100_takes_the_fine_label(tmp_path, official, name, tasks, each):
    official.cifar100(tmp_path)
    stream = open_stream(name, data=tmp_path)
    assert len(stream) == tasks
    assert [c for task in stream for c in task.classes] == list(range(100))
    assert {len(task.classes) for task in stream} == {each}
    assert stream.counts == (200, 100)
    assert stream.memory == 1000
    assert stream.class_names[99] == "fine99"
    assert stream.std == (0.2675, 0.2565, 0.2761)
    for task in stream:
        assert torch.equal(task.train.x[:, 0, 0, 0].long(), task.train.y)


def test_a_folder_and_its_archive_are_the_same_data(tmp_path, official):
    folder = official.cifar10(tmp_path / "folder")
    archive = official.tar(folder, "cifar-10-binary.tar.gz").rename(
        tmp_path / "cifar-10-binary.tar.gz"
    )
    streams = [
        open_stream("seq-cifar10", data=where)
        for where in (folder.parent, folder, tmp_path, str(archive))
    ]
    assert len({stream.fingerprint for stream in streams}) == 1
    for stream in streams[1:]:
        for task, same in zip(streams[0], stream, strict=True):
            assert torch.equal(task.train.x, same.train.x)
            assert torch.equal(task.test.x, same.test.x)


def test_one_changed_pixel_is_another_fingerprint(tmp_path, official):
    folder = official.cifar10(tmp_path)
    before = open_stream("seq-cifar10", data=tmp_path).fingerprint
    raw = bytearray((folder / "test_batch.bin").read_bytes())
    raw[-1] ^= 1
    (folder / "test_batch.bin").write_bytes(raw)
    assert open_stream("seq-cifar10", data=tmp_path).fingerprint != before


def test_the_environment_says_where_data_lies(tmp_path, official, monkeypatch):
    official.cifar100(tmp_path)
    monkeypatch.setenv("BNT_DATA", str(tmp_path))
    assert open_stream("seq-cifar100").counts == (200, 100)


def test_resizing_takes_the_mean_of_an_area_and_scales_the_padding(tmp_path, official):
    official.cifar10(tmp_path)
    native = open_stream("seq-cifar10", data=tmp_path)
    small = open_stream("seq-cifar10", data=tmp_path, image_size=16)
    assert small.shape == (3, 16, 16)
    assert small.fingerprint == native.fingerprint
    assert small.counts == native.counts
    assert small.pad == 2
    means = native[3].train.x.double().unfold(2, 2, 2).unfold(3, 2, 2).mean((-1, -2))
    assert torch.equal(small[3].train.x, means.round().to(torch.uint8))
    assert open_stream("seq-cifar10", data=tmp_path, image_size=8).pad == 1
    assert open_stream("seq-cifar10", data=tmp_path, image_size=32).pad == 4


def test_the_first_images_of_a_class_are_kept_and_the_test_set_stays_whole(tmp_path, official):
    official.cifar10(tmp_path)
    whole = open_stream("seq-cifar10", data=tmp_path)
    few = open_stream("seq-cifar10", data=tmp_path, images_per_class=2)
    assert few.counts == (20, 10)
    assert few.cut_down
    assert few.fingerprint == whole.fingerprint
    assert few[1].train.y.tolist() == [2, 2, 3, 3]
    for label in (2, 3):
        kept = whole[1].train.x[whole[1].train.y == label][:2]
        assert torch.equal(few[1].train.x[few[1].train.y == label], kept)
    assert open_stream("seq-cifar10", data=tmp_path, images_per_class=999).counts == (70, 10)


def test_the_full_count_is_not_cut_down(tmp_path, official, monkeypatch):
    official.cifar10(tmp_path)
    stream = open_stream("seq-cifar10", data=tmp_path)
    assert STREAMS["seq-cifar10"].official == stream.official
    object.__setattr__(stream, "official", (70, 10))
    assert not stream.cut_down


def fails(data, *parts, stream="seq-cifar10"):
    with pytest.raises(UserError) as caught:
        open_stream(stream, data=data)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def test_a_truncated_file_is_named_before_any_training(tmp_path, official):
    file = official.cifar10(tmp_path) / "data_batch_3.bin"
    file.write_bytes(file.read_bytes()[:-1])
    fails(tmp_path, "data_batch_3.bin", "30,729 bytes", "3,073")


def test_a_label_out_of_range_is_named_with_its_record(tmp_path, official):
    file = official.cifar10(tmp_path) / "test_batch.bin"
    raw = bytearray(file.read_bytes())
    raw[3073] = 10
    file.write_bytes(raw)
    fails(tmp_path, "test_batch.bin", "label 10", "record 1", "0 to 9")


def test_a_missing_folder_is_named(tmp_path):
    fails(tmp_path / "nowhere", "nowhere", "does not exist", "cifar-10-binary.tar.gz")


def test_a_path_the_system_refuses_is_named(tmp_path):
    fails(tmp_path / ("x" * 300), "cannot read", "File name too long")


def test_a_folder_without_the_data_says_what_it_should_hold(tmp_path):
    fails(tmp_path, str(tmp_path), "cifar-10-batches-bin/", "cifar-10-binary.tar.gz")


def test_a_missing_file_is_named(tmp_path, official):
    (official.cifar10(tmp_path) / "data_batch_2.bin").unlink()
    fails(tmp_path, "data_batch_2.bin", "lacks")


def test_a_class_without_test_images_is_named(tmp_path, official):
    file = official.cifar100(tmp_path) / "test.bin"
    file.write_bytes(file.read_bytes()[3074:])
    fails(tmp_path, "'fine99'", "no test images", stream="seq-cifar100")


def test_a_wrong_number_of_class_names_is_refused(tmp_path, official):
    file = official.cifar100(tmp_path) / "fine_label_names.txt"
    file.write_text("apple\nbear\n")
    fails(tmp_path, "fine_label_names.txt", "2 classes, not 100", stream="seq-cifar100")


def test_an_empty_file_is_a_whole_number_of_records(tmp_path, official):
    (official.cifar10(tmp_path) / "data_batch_2.bin").write_bytes(b"")
    assert open_stream("seq-cifar10", data=tmp_path).counts == (60, 10)


def test_nothing_is_written_into_the_data_folder(tmp_path, official, cache):
    official.cifar10(tmp_path / "data")
    before = sorted((tmp_path / "data").rglob("*"))
    open_stream("seq-cifar10", data=tmp_path / "data", image_size=16)
    assert sorted((tmp_path / "data").rglob("*")) == before
    assert any(re.search("cifar-10.*16px", p.name) for p in (cache / "images").iterdir())
