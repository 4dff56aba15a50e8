"""Every metric of an accuracy matrix R.

They are pure functions of R, computed when a record is read, so a metric that is added here is
there for old records too. Where each comes from: `docs/metrics.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Matrix = Sequence[Sequence[float | None]]


def acc(r: Matrix) -> float:
    """Mean accuracy over all tasks after the last one."""
    return _mean([_known(value) for value in r[-1]])


def bwt(r: Matrix) -> float | None:
    """Backward transfer: how much earlier tasks gained since they were learned, mostly < 0."""
    return _after_learning(r, lambda column, j: column[j])


def forgetting(r: Matrix) -> float | None:
    """Mean drop of earlier tasks from the best accuracy they ever had."""
    drop = _after_learning(r, lambda column, j: max(v for v in column if v is not None))
    return None if drop is None else -drop


def last_task(r: Matrix) -> float:
    """Accuracy on the newest task after it was learned."""
    return _known(r[-1][-1])


def acc_after_each_task(r: Matrix) -> list[float | None]:
    """ACC after every task, over the tasks seen by then (Figure 3, left)."""
    measured = [[value for value in row if value is not None] for row in r]
    return [_mean(row) if row else None for row in measured]


def average_incremental(r: Matrix) -> float | None:
    """Mean of ACC after every task (Rebuffi et al. 2017)."""
    accs = acc_after_each_task(r)
    known = [value for value in accs if value is not None]
    return _mean(known) if len(known) == len(accs) else None


def forward_transfer(
    untrained: Sequence[float | None], before: Sequence[float | None]
) -> float | None:
    """What earlier tasks taught about each later one (Lopez-Paz & Ranzato 2017): its accuracy just
    before it is learned, minus that of the untrained network."""
    pairs = list(zip(untrained, before, strict=True))[1:]
    changes = [b - a for a, b in pairs if a is not None and b is not None]
    return _mean(changes) if changes and len(changes) == len(pairs) else None


METRICS: dict[str, Callable[[Matrix], Any]] = {
    "acc": acc,
    "bwt": bwt,
    "forgetting": forgetting,
    "last_task": last_task,
    "average_incremental": average_incremental,
    "acc_after_each_task": acc_after_each_task,
}
"""Every metric of an accuracy matrix, by its name in a record."""

ELSEWHERE = ("task_il_acc", "forward_transfer")
"""Metrics of a record that do not follow from the matrix over all classes."""


def metrics(r: Matrix) -> dict[str, Any]:
    return {name: metric(r) for name, metric in METRICS.items()}


def _after_learning(r: Matrix, reference: Any) -> float | None:
    """Mean over all tasks but the last of R[T][j] minus a reference from column j."""
    changes = []
    for j in range(len(r) - 1):
        if r[j][j] is None:
            return None  # Joint: nothing was measured on the way
        changes.append(_known(r[-1][j]) - reference([row[j] for row in r], j))
    return _mean(changes) if changes else None


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("the accuracy matrix has no complete last row")
    return value


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
