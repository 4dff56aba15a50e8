"""What a run leaves behind: the accuracy matrix R, the metrics, and how it came about.

R[i][j] is the accuracy in percent on task j after task i (paper, Sec. 3.1); entries that were
never measured are None. Metrics are pure functions of R.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bntricks.errors import UserError
from bntricks.files import write_atomically

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


def last(r: Matrix) -> float:
    """Accuracy on the newest task after it was learned."""
    return _known(r[-1][-1])


def mean_so_far(r: Matrix) -> list[float | None]:
    """ACC after every task, over the tasks seen by then (Figure 3, left)."""
    known = [[value for value in row if value is not None] for row in r]
    return [_mean(row) if row else None for row in known]


def metrics(r: Matrix) -> dict[str, Any]:
    return {
        "acc": acc(r),
        "bwt": bwt(r),
        "forgetting": forgetting(r),
        "last_task": last(r),
        "acc_after_each_task": mean_so_far(r),
    }


Record = dict[str, Any]
"""A finished run, as the JSON object it is on disk."""

NAME = "record.json"


def save(record: Record, folder: Path) -> None:
    text = json.dumps(record, indent=1, allow_nan=False, ensure_ascii=False)
    write_atomically(folder / NAME, text.encode())


def load(folder: Path) -> Record | None:
    """The record of a finished run, None if there is none."""
    path = folder / NAME
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        record = None
    if not isinstance(record, dict) or "accuracy" not in record:
        raise UserError(f"{path} is no record of a run: delete it, or train again with --force")
    return record


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
