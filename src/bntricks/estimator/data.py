"""The estimator's input, checked: samples, which become tensors, and labels of any kind, each of
which gets an output of a growing network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from torch import Tensor

from bntricks.batch import check_finite
from bntricks.errors import UserError
from bntricks.streams.sources.arrays import pixels

Array = NDArray[Any]

MOST_REPEATED = 100
"""Repetitions of a sample by whole weights, on average; larger weights are proportions."""


def samples(estimator: BaseEstimator, X: Any) -> Tensor:
    """Check samples to predict, which must be like those it was fitted on."""
    if _is_images(X):
        return _images(X)
    return _vectors(validate_data(estimator, X, reset=False, **_as_floats(least=1)))


def labelled(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, *, reset: bool, least: int
) -> tuple[Tensor, Array]:
    """Check samples to learn and their labels, and repeat them by their weights. With `reset`, they
    are the first, and later ones must be like them."""
    if _is_images(X):
        x, labels = _images(X), column_or_1d(y, warn=True)
        check_consistent_length(x, labels)
        if reset:
            estimator.n_features_in_ = prod(x.shape[1:])
    else:
        array, labels = validate_data(estimator, X, y, reset=reset, **_as_floats(least=least))
        x = _vectors(array)
    check_classification_targets(labels)
    if sample_weight is not None:
        rows = _repeated(np.asarray(sample_weight, dtype=np.float64), labels)
        x, labels = x[torch.from_numpy(rows)], labels[rows]
    if len(x) < least:
        raise UserError(f"X has {len(x)} sample: BatchNorm learns from 2 or more")
    return x, labels


def _repeated(weight: Array, y: Array) -> NDArray[np.intp]:
    """Return the samples' rows, each as often as its weight says. Whole numbers are repetitions;
    others are proportions, and leave about as many samples as there were."""
    count = len(y)
    if weight.shape != (count,) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise UserError(f"sample_weight must be {count} numbers of at least 0, one for each sample")
    if not weight.any():
        raise UserError("all sample weights are zero")
    if (weight % 1).any() or weight.sum() > MOST_REPEATED * count:
        weight = weight * (count / weight.sum())
    # Rounded within each class, so that none gains by the order in which they alternate.
    by_class = np.argsort(y, kind="stable")
    upto = np.floor(np.cumsum(weight[by_class]) + 0.5)
    times = np.empty(count, dtype=np.intp)
    times[by_class] = np.diff(upto, prepend=0)
    return np.repeat(np.arange(count), times)


def in_fixed_order(x: Tensor, y: Array) -> tuple[Tensor, Array]:
    """Sort samples by their bytes, so that the order in which they came makes no difference."""
    codes = np.unique(y, return_inverse=True)[1].astype(np.int64)[:, None]
    values = np.ascontiguousarray(x.flatten(1).numpy()).view(np.uint8)
    rows = np.concatenate([values, codes.view(np.uint8)], axis=1)
    order = np.argsort(rows.view(f"V{rows.shape[1]}").ravel(), kind="stable")
    return x[torch.from_numpy(order)], y[order]


def _is_images(X: Any) -> bool:
    dimensions = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
    if dimensions not in (2, 4):
        raise UserError(
            f"X has {dimensions} dimensions: it must be vectors, [N, features], or images, "
            "[N, C, H, W] or [N, H, W, C]. Reshape your data"
        )
    return dimensions == 4


def _as_floats(*, least: int) -> dict[str, Any]:
    # Values that are not finite are left to `_finite`, which refuses them in one line.
    return {"dtype": np.float32, "ensure_all_finite": False, "ensure_min_samples": least}


def _vectors(array: Array) -> Tensor:
    return _finite(torch.from_numpy(np.array(array)))  # a copy: arrays may be read-only


def _images(X: Any) -> Tensor:
    """Convert images to [N, C, H, W]: uint8 stays, floats become float32."""
    array = np.asarray(X)
    if array.dtype.kind != "f":
        return torch.from_numpy(np.array(pixels("X", array), order="C"))
    channels_last = array.shape[1] not in (1, 3) and array.shape[3] in (1, 3)
    channels_first = array.transpose(0, 3, 1, 2) if channels_last else array
    return _finite(torch.from_numpy(np.array(channels_first, dtype=np.float32, order="C")))


def _finite(x: Tensor) -> Tensor:
    check_finite(x, "X")
    return x


@dataclass(frozen=True, eq=False)
class Labels:
    """The label of each output, in the order they appeared."""

    outputs: Array
    closed: bool = False
    """No other labels may follow."""

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The outputs, in the order of their sorted labels."""
        return np.argsort(self.outputs)

    @property
    def classes(self) -> Array:
        """All labels, sorted."""
        return self.outputs[self.order]

    def columns(self, y: Array) -> NDArray[np.intp]:
        """Return the output of each label, all of which must be known."""
        return self.order[np.searchsorted(self.classes, y)]

    def joined(self, y: Array, listed: Iterable[Any] | None = None) -> Labels:
        """Add the labels of y, or all that may ever appear if they are listed."""
        present = np.unique(y)
        if listed is None:
            return self._checked(present) if self.closed else self._with(present)
        complete = np.unique(np.asarray(list(listed)))
        if self.closed and not np.array_equal(complete, self.classes):
            raise UserError(
                f"classes are now {_shown(complete)}, and were {_shown(self.classes)} in an "
                "earlier call: list the same, or leave them out"
            )
        _check_kind(complete, self.outputs)
        if len(missing := np.setdiff1d(self.outputs, complete)):
            raise UserError(
                f"classes lack {_shown(missing)}, which are known already: list all of them"
            )
        return Labels(self._with(complete).outputs, closed=True)._checked(present)

    def _with(self, present: Array) -> Labels:
        _check_kind(present, self.outputs)
        new = np.setdiff1d(present, self.outputs)
        return Labels(np.concatenate([self.outputs, new]) if len(self.outputs) else new)

    def _checked(self, present: Array) -> Labels:
        _check_kind(present, self.outputs)
        if len(unlisted := np.setdiff1d(present, self.outputs)):
            raise UserError(
                f"y holds {_shown(unlisted)}, not in classes: the first call listed "
                f"{_shown(self.classes)}; list all that may ever appear, or leave classes out"
            )
        return self


NO_LABELS = Labels(np.empty(0))


def _check_kind(present: Array, known: Array) -> None:
    """Refuse labels of several kinds: numpy would turn numbers into text to sort them."""
    if len(present) and len(known) and _is_text(present) != _is_text(known):
        raise UserError(
            f"labels are now like {_shown(present[:1])}, and were like {_shown(known[:1])}: "
            "give all of them as numbers, or all as text"
        )


def _is_text(labels: Array) -> bool:
    return labels.dtype.kind in "OU"


def _shown(labels: Array) -> str:
    some = ", ".join(map(repr, labels[:10].tolist()))
    return some + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
