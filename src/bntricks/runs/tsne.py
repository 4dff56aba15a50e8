"""Features on a plane, and images small enough for a tooltip."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from bntricks.errors import RunError

PERPLEXITY = 30.0
THUMBNAIL = 32


def tsne(features: Tensor, seed: int, start: np.ndarray | None = None) -> np.ndarray:
    """t-SNE to [N, 2], the same for the same seed. From a `start` of other coordinates of the
    same images, what has not moved stays near its place."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    points = features.double().cpu().numpy()
    if not np.isfinite(points).all():
        raise RunError(
            "the network's features are not finite, so there is no map: lower the learning rate",
            remedy="lr",
        )
    # Few images have few neighbours.
    how: dict[str, Any] = {"perplexity": min(PERPLEXITY, (len(points) - 1) / 3)}
    if start is not None and start.std() > 0:
        # Drawn together, points can pass each other; pushed gently, they keep their places.
        how["init"] = ((start - start.mean(0)) / start.std()).astype(np.float32)
        how |= {"early_exaggeration": 4.0, "learning_rate": max(len(points) / 12, 4.0)}
    elif min(points.shape) < 2 or not points.std(0).any():
        how["init"] = "random"  # there are no two principal axes
    # One thread: sums over several come out in any order.
    with threadpool_limits(1):
        method = TSNE(**how, random_state=seed, n_jobs=1)
        return np.asarray(method.fit_transform(points), dtype=np.float64)


def picture(image: Tensor) -> str:
    """A uint8 image [C, H, W] as a PNG in a data URI, no side above THUMBNAIL pixels. What does
    not have three channels is shown in grey."""
    pixels = image.cpu().numpy().transpose(1, 2, 0)
    if pixels.shape[2] != 3:
        pixels = pixels.mean(2).round().astype(np.uint8)
    small = Image.fromarray(np.ascontiguousarray(pixels))
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    file = io.BytesIO()
    small.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
