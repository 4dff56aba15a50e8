"""Project features to a plane, and make images small enough for a tooltip."""

import base64
import io
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from bntricks.errors import RunError, extra

PERPLEXITY = 30.0
THUMBNAIL = 32


def tsne(features: Tensor, seed: int, start: np.ndarray | None = None) -> np.ndarray:
    """Project features to [N, 2] by t-SNE, alike for the same seed. With a `start`, earlier
    coordinates of the same images, points whose features have not moved stay near their places."""
    with extra(option="probe"):
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits

    points = features.cpu().double().numpy()
    if not np.isfinite(points).all():
        raise RunError(
            "the network's features are not finite, so there is no map: lower the learning rate",
            remedy="lr",
        )
    options: dict[str, Any] = {"perplexity": min(PERPLEXITY, (len(points) - 1) / 3)}
    if start is not None and start.std() > 0:
        # Strong attraction lets points pass each other; gentle steps keep them in their places.
        options["init"] = ((start - start.mean(0)) / start.std()).astype(np.float32)
        options |= {"early_exaggeration": 4.0, "learning_rate": max(len(points) / 12, 4.0)}
    elif min(points.shape) < 2 or not points.std(0).any():
        options["init"] = "random"  # there are no two principal axes
    # With several threads, sums are added in any order.
    with threadpool_limits(1):
        method = TSNE(**options, random_state=seed, n_jobs=1)
        return np.asarray(method.fit_transform(points), dtype=np.float64)


def picture(image: Tensor) -> str:
    """Encode a uint8 image [C, H, W] as a PNG in a data URI, no side above THUMBNAIL pixels. Images
    without three channels become grey."""
    pixels = image.cpu().numpy().transpose(1, 2, 0)
    if pixels.shape[2] != 3:
        pixels = pixels.mean(2).round().astype(np.uint8)
    small = Image.fromarray(np.ascontiguousarray(pixels))
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    file = io.BytesIO()
    small.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
