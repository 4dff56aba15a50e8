"""The plane of a map: points in a square that all panels share, and what a network would say of
the places between them. t-SNE has no units and no directions, so scale, shift, turn and mirror are
free."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageColor

SIDE = 100.0
MARGIN = 9.0
GRID = 240
NEIGHBOURS = 15
FAINT = 60
"""Opacity of a region, of 255."""
NEAR = 4.5
"""How far from every point a region begins to fade; at twice as far there is none."""


def placed(x: Sequence[float], y: Sequence[float], like: np.ndarray | None = None) -> np.ndarray:
    """Points [N, 2] in the square, as large as can be; or turned and mirrored to lie as near as can
    be to other places of the same images (orthogonal Procrustes)."""
    points = np.stack([x, y], axis=1).astype(np.float64)
    points -= points.mean(0)
    if like is None:
        angles = np.radians(np.arange(0, 90, 3))
        turns = [np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) for a in angles]
        points = min((points @ turn for turn in turns), key=lambda p: np.ptp(p, axis=0).max())
    else:
        left, _, right = np.linalg.svd(points.T @ (like - like.mean(0)))
        points = points @ left @ right
    low, high = points.min(0), points.max(0)
    extent = float((high - low).max()) or 1.0
    return np.asarray(SIDE / 2 + (points - (low + high) / 2) * (SIDE - 2 * MARGIN) / extent)


def regions(points: np.ndarray, predicted: Sequence[int], colours: Sequence[str]) -> str:
    """Rough prediction regions: each place of the square in the faint colour of the class that most
    of its nearest points are taken for. A PNG in a data URI; colours are by label."""
    from sklearn.neighbors import KNeighborsClassifier

    count = max(1, min(NEIGHBOURS, len(points) // 10))
    nearest = KNeighborsClassifier(count).fit(points, predicted)
    centres = (np.arange(GRID) + 0.5) * SIDE / GRID
    across, down = np.meshgrid(centres, centres[::-1])  # the first row of an image is its highest
    places = np.stack([across.ravel(), down.ravel()], axis=1)
    away = nearest.kneighbors(places, 1)[0]  # [GRID², 1]
    inks = np.array([ImageColor.getrgb(c)[:3] for c in colours])[nearest.predict(places)]
    shade = FAINT * np.clip(2 - away / NEAR, 0, 1)
    pixels = np.concatenate([inks, shade], axis=1).astype(np.uint8).reshape(GRID, GRID, 4)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
