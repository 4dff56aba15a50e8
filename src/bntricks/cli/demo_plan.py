"""The main job on embedded data: what BatchNorm costs replay, and what BN Tricks gains.

The configuration was chosen so that learning is real in minutes on two cores: digits enlarged to
16×16, because an 8×8 image is a single pixel after three strided stages and a small batch then
normalises to ±1; a small memory, because with a large one plain replay has nothing left to lose;
and several hundred steps a task, because φ matters only once the network has settled.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean, stdev
from typing import Any

from bntricks.runs.config import Config
from bntricks.runs.record import Record

METHODS = ("sgd", "er", "er-cur+buf", "er-bnt", "joint")


def plan(*, seeds: int, quick: bool) -> list[Config]:
    """Every method with every seed, seeds outermost, so that early results already compare."""
    return [
        Config(
            method=method,
            stream="seq-digits",
            seed=seed,
            image_size=16,
            images_per_class=128,  # whole batches: none of a few images moves φ last
            width=8,
            blocks=1,
            stages=3,
            memory=20,
            epochs=4 if quick else 60,
        )
        for seed in range(seeds)
        for method in METHODS
    ]


def summary(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Mean and sample standard deviation over seeds, a row a method."""
    by_method: dict[str, list[Record]] = {}
    for record in records:
        by_method.setdefault(record["method"], []).append(record)
    return [
        {
            "method": method,
            "seeds": len(found),
            "acc": _spread([record["acc"] for record in found]),
            "bwt": _spread([record["bwt"] for record in found]),
            "forwards_per_step": mean(record["forwards_per_step"] for record in found),
        }
        for method, found in by_method.items()
    ]


def _spread(values: list[float | None]) -> dict[str, float | None] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": mean(known), "sd": stdev(known) if len(known) > 1 else None}
