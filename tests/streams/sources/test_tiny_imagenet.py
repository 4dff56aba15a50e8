import shutil

import pytest
import torch

from bntricks.errors import UserError
from bntricks.streams import open_stream


@pytest.mark.parametrize(
    ("name", "tasks", "each"), [("seq-tiny-imagenet", 10, 20), ("seq-tiny-imagenet-20", 20, 10)]
)
def test_classes_arrive_in_the_sorted_order_of_their_wnids(tiny, name, tasks, each):
    stream = open_stream(name, data=tiny.parent)
    assert len(stream) == tasks
    assert {len(task.classes) for task in stream} == {each}
    assert stream.shape == (3, 64, 64)
    assert stream.counts == (400, 200)
    assert stream.official == (100_000, 10_000)
    assert (stream.pad, stream.flip, stream.memory) == (4, True, 2000)
    assert stream.mean == (0.4802, 0.4480, 0.3975)
    # The images of the k-th wnid in sorted order have the shade k.
    for task in stream:
        shade = task.test.x[:, 0].float().mean((1, 2))
        assert (shade - task.test.y).abs().max() < 3
        colour = task.train.x[::2, 0].float().mean((1, 2))
        assert (colour - task.train.y[::2]).abs().max() < 3


def test_names_are_the_first_synonym_or_else_the_wnid(tiny):
    names = open_stream("seq-tiny-imagenet", data=tiny).class_names
    assert names[:7] == (
        "thing 0",
        "thing 1",
        "thing 2",
        "thing 3",
        "thing 4",
        "n10000035",
        "thing 6",
    )


def test_a_grey_jpeg_becomes_three_equal_channels(tiny):
    train = open_stream("seq-tiny-imagenet", data=tiny)[3].train
    grey, colour = train.x[1::2], train.x[::2]
    assert torch.equal(grey[:, 0], grey[:, 2])
    assert (grey[:, 0].float().mean((1, 2)) - train.y[1::2]).abs().max() < 3
    assert not torch.equal(colour[:, 0], colour[:, 2])


def test_a_zip_and_its_tree_are_the_same_data(tmp_path, tiny, official):
    archive = official.zip(shutil.copytree(tiny, tmp_path / "tiny-imagenet-200"))
    shutil.rmtree(tmp_path / "tiny-imagenet-200")
    tree, packed = (open_stream("seq-tiny-imagenet", data=d) for d in (tiny.parent, tmp_path))
    assert tree.fingerprint == packed.fingerprint
    for task, same in zip(tree, packed, strict=True):
        assert torch.equal(task.train.x, same.train.x)
        assert torch.equal(task.test.x, same.test.x)
    assert open_stream("seq-tiny-imagenet", data=archive).fingerprint == tree.fingerprint


def test_a_smaller_size_keeps_the_native_fingerprint(tiny):
    small = open_stream("seq-tiny-imagenet", data=tiny, image_size=32, images_per_class=1)
    assert small.shape == (3, 32, 32)
    assert small.pad == 2
    assert small.counts == (200, 200)
    assert small.fingerprint == open_stream("seq-tiny-imagenet", data=tiny).fingerprint


@pytest.fixture
def own(tmp_path, tiny):
    """A copy that a test may break."""
    return shutil.copytree(tiny, tmp_path / "tiny-imagenet-200")


def fails(data, *parts):
    with pytest.raises(UserError) as caught:
        open_stream("seq-tiny-imagenet", data=data)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def first_image(own):
    return min((own / "train" / "n10000014" / "images").iterdir())


def test_a_broken_jpeg_is_named(own):
    image = first_image(own)
    image.write_bytes(image.read_bytes()[:300])
    fails(own, "train/n10000014/images/n10000014_0.JPEG")


def test_a_file_that_is_no_jpeg_is_named(own):
    first_image(own).write_bytes(b"GIF89a" + bytes(100))
    fails(own, "n10000014_0.JPEG", "none of JPEG")


def test_an_image_of_another_size_is_refused(own, official):
    first_image(own).write_bytes(official.jpeg(3, size=65))
    fails(own, "n10000014_0.JPEG", "65×65", "64×64")


def test_a_class_without_training_images_is_named(own):
    shutil.rmtree(own / "train" / "n10000014")
    fails(own, "'thing 2'", "no training images")


def test_a_class_without_validation_images_is_named(own):
    for line in (own / "val" / "val_annotations.txt").read_text().splitlines():
        if "n10000014" in line:
            (own / "val" / "images" / line.split("\t")[0]).unlink()
    fails(own, "'thing 2'", "no test images")


def test_a_validation_image_without_annotation_is_named(own, official):
    (own / "val" / "images" / "val_999.JPEG").write_bytes(official.jpeg(3))
    fails(own, "val_999.JPEG", "val_annotations.txt")


def test_an_annotation_cannot_name_a_file_elsewhere(own, official):
    (own.parent / "secret.JPEG").write_bytes(official.jpeg(3))
    annotations = own / "val" / "val_annotations.txt"
    whole = open_stream("seq-tiny-imagenet", data=own)
    line = "../../../secret.JPEG\tn10000014\t0\t0\t1\t1\n"
    annotations.write_text(annotations.read_text() + line)
    assert open_stream("seq-tiny-imagenet", data=own).counts == whole.counts


def test_an_annotation_of_an_unknown_class_is_refused(own):
    annotations = own / "val" / "val_annotations.txt"
    annotations.write_text("val_0.JPEG\tn99\t0\t0\t1\t1\n")
    fails(own, "line 1", "'n99'")


def test_the_hidden_files_some_systems_leave_are_no_images(own):
    (own / "train" / "n10000014" / "images" / "._n10000014_0.JPEG").write_bytes(b"resource fork")
    assert open_stream("seq-tiny-imagenet", data=own).counts == (400, 200)


def test_a_wrong_number_of_classes_is_refused(own):
    (own / "wnids.txt").write_text("n10000014\n")
    fails(own, "wnids.txt", "1 classes, not 200")


def test_a_missing_list_of_classes_is_named(own):
    (own / "wnids.txt").unlink()
    fails(own, "wnids.txt", "No such file")
