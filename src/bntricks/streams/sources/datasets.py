"""from_dataset: the samples of a torch Dataset, or of a Hugging Face one, as a Stream. A data set
is known by its methods, so neither library is imported.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bntricks.errors import UserError
from bntricks.streams.files.image import Square, planes, rgb, squared
from bntricks.streams.sources.arrays import from_arrays
from bntricks.streams.stream import Stream

Key = str | int | None
TRAIN, TEST = "train", ("test", "validation")
"""Splits, by their usual names."""


def from_dataset(
    train: Any,
    test: Any = None,
    *,
    x: Key = None,
    y: Key = None,
    image_size: int | None = None,
    **how: Any,
) -> Stream:
    """Make a stream of data sets that yield pairs (sample, label), or mappings with a sample under
    the key `x` and a label under `y`. With a mapping of splits, `train` alone is enough. Samples
    are PIL images, which are resized to squares of `image_size` if given, or arrays or tensors as
    `from_arrays` takes them; `how` are further keywords of it. Each sample is read once, so leave
    random transforms out.
    """
    if isinstance(train, Mapping):
        if TRAIN not in train:
            raise UserError(f"the splits are {', '.join(map(repr, train))}: give one as train")
        test = next((train[name] for name in TEST if name in train), test)
        train = train[TRAIN]
    features = getattr(train, "features", None) if hasattr(train, "column_names") else None
    if features is not None:
        x, y = _columns(features, x, y)
    parts = [train] if test is None else [train, test]
    keys = (0 if x is None else x, 1 if y is None else y)
    read = [_read(part, *keys, image_size) for part in parts]
    if "class_names" not in how:
        known = getattr(features[y], "names", None) if features else getattr(train, "classes", None)
        labels = np.unique(read[0][1])
        if known is not None and labels.dtype.kind in "iu" and labels[-1] < len(known):
            how["class_names"] = [known[label] for label in labels]
    return from_arrays(*(array for part in read for array in part), **{"name": "dataset", **how})


def _columns(features: Mapping[str, Any], x: Key, y: Key) -> tuple[Key, Key]:
    """Choose the columns of a Hugging Face data set that are not named: the only one with class
    names for labels, and of the others the only one with images, or the only one."""
    if y is None:
        y = _only(
            "y", [name for name, kind in features.items() if hasattr(kind, "names")], features
        )
    if x is None:
        others = {name: kind for name, kind in features.items() if name != y}
        images = [name for name, kind in others.items() if type(kind).__name__ == "Image"]
        x = _only("x", images or list(others), features)
    for name in (x, y):
        if name not in features:
            raise UserError(f"there is no column {name!r}: there are {', '.join(features)}")
    return x, y


def _only(what: str, names: list[str], features: Mapping[str, Any]) -> str:
    if len(names) != 1:
        raise UserError(f"say which column is {what}={what!r}: there are {', '.join(features)}")
    return names[0]


def _read(dataset: Any, x: Key, y: Key, size: int | None) -> tuple[Any, Any]:
    samples, labels = [], []
    items = (dataset[k] for k in range(len(dataset))) if hasattr(dataset, "__len__") else dataset
    for number, item in enumerate(items):
        try:
            samples.append(_array(item[x], size))
            labels.append(item[y].item() if isinstance(item[y], Tensor) else item[y])
        except (KeyError, IndexError, TypeError) as error:
            keys = f": there are {', '.join(map(repr, item))}" if isinstance(item, Mapping) else ""
            raise UserError(
                f"sample {number} of the data set has no x={x!r} or y={y!r}{keys}"
            ) from error
        if samples[-1].shape != samples[0].shape:
            raise UserError(
                f"sample {number} has the shape {list(samples[-1].shape)}, the first one "
                f"{list(samples[0].shape)}: give image_size=, if they are PIL images, or make them "
                "alike"
            )
    if not samples:
        raise UserError("the data set has no samples")
    return np.stack(samples), np.array(labels)


def _array(sample: Any, size: int | None) -> NDArray[Any]:
    if isinstance(sample, Tensor):
        return sample.detach().cpu().numpy()
    if hasattr(sample, "convert") and hasattr(sample, "getbands"):  # a PIL image
        if size is not None:
            return planes(squared(sample, Square.of(size)))
        if sample.mode != "L":
            return planes(rgb(sample))
    return np.asarray(sample)
