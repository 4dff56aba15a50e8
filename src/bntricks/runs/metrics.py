"""Every metric of an accuracy matrix R, and its title.

They are pure functions of R, computed when a record is read, so a metric that is added here exists
for old records too. `docs/metrics.md` says where each comes from.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bntricks.errors import UserError

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


def previous(r: Matrix) -> float | None:
    """Mean final accuracy of all tasks but the last."""
    return _mean_if_all(r[-1][:-1])


def learned(r: Matrix) -> float | None:
    """Mean accuracy of each task right after it was learned."""
    return _mean_if_all([row[task] for task, row in enumerate(r)])


def last_task(r: Matrix) -> float:
    """Accuracy on the newest task after it was learned."""
    return _known(r[-1][-1])


def acc_after_each_task(r: Matrix) -> list[float | None]:
    """ACC after every task, over the tasks seen by then (Figure 3, left)."""
    measured = [[value for value in row if value is not None] for row in r]
    return [_mean(row) if row else None for row in measured]


def average_incremental(r: Matrix) -> float | None:
    """Mean of ACC after every task (Rebuffi et al. 2017)."""
    return _mean_if_all(acc_after_each_task(r))


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
PARTS: dict[str, Callable[[Matrix], float | None]] = {"previous": previous, "learned": learned}
"""Further means of R, for claims; records do not hold them."""
LISTS = {"acc_after_each_task": "acc_after:K"}
"""Metrics that are lists, and the name of one of their numbers."""
SHOWN = ("acc", "bwt", "forgetting")
"""Metrics in a table, unless others are chosen."""
TITLES = {
    "acc": "ACC",
    "bwt": "BWT",
    "task_il_acc": "Task-IL ACC",
    "phi.oracle_gain": "ACC that a perfect φ would gain",
}


def metrics(r: Matrix) -> dict[str, Any]:
    return {name: metric(r) for name, metric in METRICS.items()}


def choosable() -> tuple[str, ...]:
    """List every metric that is one number."""
    return tuple(name for name in (*METRICS, *ELSEWHERE, *PARTS) if name not in LISTS)


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """Check these metrics and drop repetitions; `SHOWN` if there are none."""
    known, plain = choosable(), [name.replace("-", "_") for name in names]
    for name in plain:
        if name not in known:
            raise UserError(
                f"unknown metric: there are {', '.join(known)}", option="metrics", value=name
            )
    return tuple(dict.fromkeys(plain)) or SHOWN


def metric_title(metric: str) -> str:
    """Return a metric's title in the middle of a sentence."""
    match metric.split(":"):
        case ["acc_after", task]:
            return f"ACC after task {task}"
        case ["accuracy", after, task]:
            return f"task {task} after task {after}"
        case ["every_task", task]:
            return f"every task: task {task} decides"
    return TITLES.get(metric) or metric.replace("_", " ").replace(".", ": ")


def column_title(metric: str) -> str:
    title = metric_title(metric)
    return title[0].upper() + title[1:]


def _after_learning(r: Matrix, reference: Any) -> float | None:
    """Return the mean over all tasks but the last of R[T][j] minus a reference from column j."""
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


def _mean_if_all(values: Sequence[float | None]) -> float | None:
    """Return the mean, or None if there is no value or one is missing."""
    known = [value for value in values if value is not None]
    return _mean(known) if known and len(known) == len(values) else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
