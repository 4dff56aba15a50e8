"""Data sets that people have, known by their methods."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, Subset, TensorDataset

from bntricks.errors import UserError
from bntricks.streams import from_arrays, from_dataset

LABELS = [0, 1, 2, 3] * 3
COLOURS = [(40 * label, number, 7) for number, label in enumerate(LABELS)]


def picture(colour, size=(10, 10), mode="RGB"):
    return Image.new("RGB", size, colour).convert(mode)


class Pictures(Dataset):
    """As torchvision's: PIL images, numbers, and the names of all classes."""

    classes = ("ant", "bee", "cat", "dog", "eel")

    def __init__(self, sizes=((10, 10),), mode="RGB"):
        self.sizes, self.mode = sizes, mode

    def __len__(self):
        return len(LABELS)

    def __getitem__(self, index):  # like many, it raises no IndexError at its end
        size = self.sizes[index % len(self.sizes)]
        return picture(COLOURS[index % len(LABELS)], size, self.mode), LABELS[index % len(LABELS)]


class ClassLabel(SimpleNamespace):
    pass


class Columns(list):
    """As Hugging Face's: rows are mappings, and columns have types."""

    def __init__(self, rows, **features):
        super().__init__(rows)
        self.features, self.column_names = features, [*features]


def columns(**others):
    rows = [
        {"image": picture(colour), "label": label, **dict.fromkeys(others)}
        for colour, label in zip(COLOURS, LABELS, strict=True)
    ]
    kinds = {"image": type("Image", (), {})(), "label": ClassLabel(names=list("abcd"))}
    return Columns(rows, **kinds, **others)


def test_a_torch_dataset_of_pictures_is_the_stream_of_their_pixels():
    stream = from_dataset(Pictures(), Pictures(), classes_per_task=2, flip=True)
    x = np.array([np.array(picture(colour)) for colour in COLOURS])
    same = from_arrays(x, LABELS, x, LABELS, class_names=Pictures.classes[:4], flip=True)
    assert stream.fingerprint == same.fingerprint
    assert (stream.name, stream.shape, stream.flip) == ("dataset", (3, 10, 10), True)
    assert stream.class_names == ("ant", "bee", "cat", "dog")


def test_tensors_and_a_part_of_a_dataset_will_do():
    x, y = torch.randn(12, 5), torch.tensor(LABELS)
    stream = from_dataset(Subset(TensorDataset(x, y), range(2, 10)))
    assert stream.counts == (8, 0)
    assert torch.equal(stream[0].train.x, x[[4, 8, 5, 9]])
    assert stream.class_names == ("0", "1", "2", "3")


def test_pictures_of_many_sizes_and_modes_are_resized_as_those_of_a_folder():
    stream = from_dataset(Pictures(sizes=((10, 10), (20, 12))), image_size=8)
    assert stream.shape == (3, 8, 8)
    assert [tuple(x[:, 0, 0].tolist()) for x in stream[0].train.x][:3] == COLOURS[0::4]
    assert from_dataset(Pictures(mode="P")).shape == (3, 10, 10)
    assert from_dataset(Pictures(mode="L")).shape == (1, 10, 10)
    with pytest.raises(UserError, match=r"sample 1 has the shape \[3, 12, 20\].*image_size="):
        from_dataset(Pictures(sizes=((10, 10), (20, 12))))


def test_a_hugging_face_dataset_is_read_by_its_columns():
    own = from_dataset({"train": columns(), "test": columns()})
    assert own.class_names == tuple("abcd")
    assert own.counts == (12, 12)
    named = from_dataset(columns(id="number", caption="text"), columns(), x="image", y="label")
    assert torch.equal(named[0].train.x, own[0].train.x)


@pytest.mark.parametrize(
    ("dataset", "keys", "message"),
    [
        (columns(more=ClassLabel(names=["x"])), {}, "say which column is y='y': there are image"),
        (columns(), {"x": "picture"}, "there is no column 'picture': there are image, label"),
        ({"dev": columns()}, {}, "the splits are 'dev'"),
        (
            [{"x": 1.0, "y": 2}],
            {},
            "sample 0 of the data set has no x=0 or y=1: there are 'x', 'y'",
        ),
        ([], {}, "the data set has no samples"),
    ],
)
def test_what_cannot_be_read_is_one_line(dataset, keys, message):
    with pytest.raises(UserError) as refusal:
        from_dataset(dataset, **keys)
    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)
