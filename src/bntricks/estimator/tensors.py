"""What users of the estimator pass, checked and made tensors: vectors or images, and labels."""

from __future__ import annotations

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


def samples(estimator: BaseEstimator, X: Any) -> Tensor:
    """Samples to predict, which must be like those it was fitted on."""
    if _is_images(X):
        return _images(X)
    return _vectors(validate_data(estimator, X, reset=False, **_as_floats(least=1)))


def labelled(estimator: BaseEstimator, X: Any, y: Any, *, reset: bool) -> tuple[Tensor, Array]:
    """Samples to learn and their labels. With `reset`, they are the first, and later ones must be
    like them."""
    if _is_images(X):
        x, labels = _images(X), column_or_1d(y, warn=True)
        check_consistent_length(x, labels)
        if len(x) < 2:
            raise UserError("X has 1 sample: BatchNorm learns from 2 or more")
        if reset:
            estimator.n_features_in_ = prod(x.shape[1:])
    else:
        array, labels = validate_data(estimator, X, y, reset=reset, **_as_floats(least=2))
        x = _vectors(array)
    check_classification_targets(labels)
    return x, labels


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
    """[N, C, H, W]: uint8 as it is, floats as float32."""
    array = np.asarray(X)
    if array.dtype.kind != "f":
        return torch.from_numpy(np.array(pixels("X", array), order="C"))
    channels_last = array.shape[1] not in (1, 3) and array.shape[3] in (1, 3)
    channels_first = array.transpose(0, 3, 1, 2) if channels_last else array
    return _finite(torch.from_numpy(np.array(channels_first, dtype=np.float32, order="C")))


def _finite(x: Tensor) -> Tensor:
    check_finite(x, "X")
    return x
