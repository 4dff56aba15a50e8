"""from_arrays: samples that are in memory already, as a Stream. Arrays or tensors of uint8 pixels,
[N, H, W], [N, C, H, W] or [N, H, W, C], or of features, which a network takes as they are; labels
are any integers or strings.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from bntricks.errors import UserError
from bntricks.streams.files.dataset import Split, in_memory
from bntricks.streams.stream import Stream
from bntricks.streams.tasks import choose_order, make_stream

Channels = Literal["first", "last"]


def from_arrays(
    x_train: ArrayLike | Tensor,
    y_train: ArrayLike | Tensor,
    x_test: ArrayLike | Tensor | None = None,
    y_test: ArrayLike | Tensor | None = None,
    *,
    classes_per_task: int | None = None,
    tasks: Sequence[Sequence[Any]] | None = None,
    class_names: Sequence[str] | None = None,
    channels: Channels | None = None,
    pad: int = 0,
    flip: bool = False,
    memory: int = 500,
    name: str = "arrays",
) -> Stream:
    """Make a stream of the classes in y_train, in sorted order by classes_per_task (default 2), or
    as `tasks` lists their labels or names. `class_names` name the labels in sorted order. In the
    stream, labels are renumbered in the order of arrival. Without test samples, `open_stream`,
    `run` and `train` test it on a share of each class, `held_out`. Floats, and rows of any numbers,
    are features. `channels` says which axis of images they are, where their shape leaves that open.
    """
    train_x, train_y = _samples("x_train", x_train, channels), _labels("y_train", y_train)
    if (x_test is None) != (y_test is None):
        raise UserError("x_test and y_test go together: give both, or neither")
    test_x = train_x[:0] if x_test is None else _samples("x_test", x_test, channels)
    test_y = train_y[:0] if y_test is None else _labels("y_test", y_test)
    for what, x, y in (("train", train_x, train_y), ("test", test_x, test_y)):
        if len(x) != len(y):
            raise UserError(
                f"x_{what} has {len(x)} samples and y_{what} {len(y)} labels: give one for each"
            )
    if (train_x.shape[1:], train_x.dtype) != (test_x.shape[1:], test_x.dtype):
        raise UserError(
            f"a sample of x_train is {list(train_x.shape[1:])} of {train_x.dtype}, one of x_test "
            f"{list(test_x.shape[1:])} of {test_x.dtype}: they must be alike"
        )
    labels = np.unique(train_y)
    if train_y.dtype.kind != test_y.dtype.kind:
        raise UserError("the labels of y_train and y_test must both be integers or both strings")
    untrained = np.setdiff1d(test_y, labels)
    if len(untrained):
        raise UserError(
            f"y_test holds {untrained[0].item()!r}, which y_train does not: "
            "every class needs training samples"
        )
    missing = np.setdiff1d(labels, test_y)
    if len(missing) and x_test is not None:
        raise UserError(f"class {missing[0].item()!r} has no test samples: every class needs one")
    keys = [str(label) for label in labels.tolist()]
    names = keys if class_names is None else list(map(str, class_names))
    if len(names) != len(keys):
        raise UserError(
            f"class_names has {len(names)} names for {len(keys)} classes: give one for each, "
            "in the sorted order of the labels"
        )
    listable = names
    if tasks is not None and not any(isinstance(task, str) for task in tasks):
        tasks = [[str(e.item() if isinstance(e, Tensor) else e) for e in task] for task in tasks]
        if all(entry in keys for entry in chain.from_iterable(tasks)):
            listable = keys  # labels win where both fit
    order = choose_order(listable, classes_per_task, tasks)
    train, test = _part(train_x, train_y, labels), _part(test_x, test_y, labels)
    dataset = in_memory(train, test, names)
    return make_stream(name, dataset, order, own_order=True, pad=pad, flip=flip, memory=memory)


def pixels(
    what: str, array: ArrayLike | Tensor, channels: Channels | None = None
) -> NDArray[np.uint8]:
    """Return images as [N, C, H, W]."""
    x = _array(array)
    if x.dtype != np.uint8:
        hint = f"; if yours are from 0 to 1, pass ({what} * 255).round() as uint8"
        raise UserError(
            f"{what} is {x.dtype}: pixels must be uint8 from 0 to 255"
            + (hint if x.dtype.kind == "f" else "")
        )
    if 0 in x.shape:
        raise UserError(f"{what} of shape {list(x.shape)} holds no images")
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4:
        return _channels_first(what, x, channels)
    raise UserError(
        f"{what} has the shape {list(x.shape)}: it must be [N, H, W], [N, C, H, W] or [N, H, W, C]"
    )


def _samples(what: str, array: ArrayLike | Tensor, channels: Channels | None) -> NDArray[Any]:
    """Return images as [N, C, H, W], and features as float32 [N, ...]."""
    x = _array(array)
    if x.dtype == np.uint8 and x.ndim > 2:
        return pixels(what, x, channels)
    if x.dtype.kind not in "fiu" or x.ndim < 2 or (x.dtype.kind != "f" and x.ndim > 2):
        raise UserError(
            f"{what} is {x.dtype} of shape {list(x.shape)}: images are uint8 from 0 to 255, and "
            "features are floats or rows of numbers, [N, …]"
        )
    if 0 in x.shape:
        raise UserError(f"{what} of shape {list(x.shape)} holds no samples")
    x = x.astype(np.float32)
    if not np.isfinite(x).all():
        raise UserError(f"{what} holds NaN or infinity: leave such samples out, or replace them")
    return _channels_first(what, x, channels) if x.ndim == 4 else x


def _channels_first(what: str, x: NDArray[Any], channels: Channels | None) -> NDArray[Any]:
    """Find the channels: 1 or 3 of them, or the axis beside two of one length."""
    _, second, third, last = x.shape
    if channels is None:
        if second in (1, 3) or (last not in (1, 3) and third == last != second):
            channels = "first"
        elif last in (1, 3) or second == third != last:
            channels = "last"
        else:
            raise UserError(
                f"{what} has the shape {list(x.shape)}, so any axis may be the channels: say "
                "channels='first', [N, C, H, W], or 'last', [N, H, W, C]"
            )
    return x if channels == "first" else x.transpose(0, 3, 1, 2)


def _array(array: ArrayLike | Tensor) -> NDArray[Any]:
    if not isinstance(array, Tensor):
        return np.asarray(array)
    own = array.detach().cpu()
    return (own.float() if own.dtype == torch.bfloat16 else own).numpy()


def _labels(what: str, array: ArrayLike | Tensor) -> NDArray[Any]:
    y = _array(array)
    if y.dtype.kind == "O" and all(isinstance(label, str) for label in y.flat):
        y = y.astype(np.str_)
    if y.dtype.kind not in "iuU":
        raise UserError(f"{what} is {y.dtype}: labels must be integers or strings")
    if y.ndim != 1:
        raise UserError(f"{what} has the shape {list(y.shape)}: labels must be a flat list, [N]")
    return y.astype(np.int64) if y.dtype.kind == "u" else y


def _part(x: NDArray[Any], y: NDArray[Any], labels: NDArray[Any]) -> Split:
    counts = (y == labels[:, None]).sum(1)
    in_class_order = np.ascontiguousarray(x[np.argsort(y, kind="stable")])
    return Split(torch.from_numpy(in_class_order), tuple(counts.tolist()))
