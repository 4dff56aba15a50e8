"""The newest task's share of φ when it ends, which follows from the recipe.

It assumes the paper's batches, tasks with equally many classes, momentum 0.1 and, for a loader that
mixes the memory into the task, the sizes of Seq-CIFAR-10.
"""

from collections.abc import Iterator
from math import comb

from bntricks.batch import taken
from bntricks.recipes.language import (
    BM,
    BM2,
    Balanced,
    Blended,
    Bmix,
    Bp,
    Bt,
    Copies,
    Method,
    Source,
    Union,
)

BATCH, MOMENTUM = 32, 0.1
KNOWN = {Bt, BM, BM2, Bp, Bmix}
MIXED = 10_000 / 10_500
"""The share of a task of Seq-CIFAR-10, with a memory of 500 images."""


def new_share(method: Method, t: int) -> float | None:
    """Compute the newest task's share of φ as task t ends; None if the recipe leaves it open."""
    if t == 1:
        return 1.0
    if method.joint:
        return 1 / t
    memory, tracked = method.memory, method.sources
    stored = 0.0 if memory is None else memory.new_share(t)
    if (copy := getattr(method.classify, "tracked", None)) is not None:
        tracked = (copy,)
    elif method.sets_ema is not None:
        tracked = (method.sets_ema,)
    elif method.ema is not None:
        tracked = (method.ema,)
    elif memory is not None and memory.moves_ema:
        return None
    known = {symbol for source in tracked for symbol in source.symbols()} <= KNOWN
    if stored is None or method.project is not None or not tracked or not known:
        return None
    shares = [_batch(source, t, stored)[1] for source in tracked]
    # Of n passes in a step, the i-th has decayed n - i times when the step is over.
    weights = [(1 - MOMENTUM) ** (len(shares) - i) for i in range(1, len(shares) + 1)]
    weighted = sum(weight * share for weight, share in zip(weights, shares, strict=True))
    return weighted / sum(weights)


def _batch(source: Source, t: int, stored: float) -> tuple[float, float]:
    """Count a batch's rows, and compute the expected share of new ones."""
    match source:
        case Union(left, right):
            (first, new), (second, also) = _batch(left, t, stored), _batch(right, t, stored)
            return first + second, (first * new + second * also) / (first + second)
        case Blended(of):
            return _batch(of, t, stored)
        case Copies(of):
            rows, new = _batch(of, t, stored)
            return rows * max(t - 1, 1), new
        case Balanced(_, memory):
            _, new = _batch(memory, t, stored)
            outcomes = list(_balanced(t, new))
            rows = sum(chance * size for chance, size, _ in outcomes)
            return rows, sum(chance * share for chance, _, share in outcomes)
    shares: dict[Source, float] = {Bt: 1.0, BM: stored, BM2: stored, Bp: 0.0, Bmix: MIXED}
    return BATCH, shares[source]


def _balanced(t: int, stored: float) -> Iterator[tuple[float, int, float]]:
    """Yield the probability, size and new share of B_b for each number of new rows in memory."""
    for fresh in range(BATCH + 1):
        chance = comb(BATCH, fresh) * stored**fresh * (1 - stored) ** (BATCH - fresh)
        take = taken(BATCH, fresh, BATCH, new=1, old=t - 1)
        yield chance, BATCH + take, (fresh + take) / (BATCH + take)
