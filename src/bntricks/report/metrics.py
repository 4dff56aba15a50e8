"""Which numbers of a run a table shows, by choice, and what they are called. What each means, and
who defined it, is in `docs/metrics.md`."""

from __future__ import annotations

from collections.abc import Iterable

from bntricks.errors import UserError
from bntricks.runs.metrics import ELSEWHERE, METRICS

SHOWN = ("acc", "bwt", "forgetting")
"""In a table, unless others are chosen."""
TITLES = {
    "acc": "ACC",
    "bwt": "BWT",
    "task_il_acc": "Task-IL ACC",
    "phi.oracle_gain": "ACC that a perfect φ would gain",
}
PARTS_OF_R = ("previous", "learned")
"""Further means of R that claims are made of."""
LISTS = ("acc_after_each_task",)


def choosable() -> tuple[str, ...]:
    """Every metric that is one number."""
    names = (*METRICS, *ELSEWHERE, *PARTS_OF_R)
    return tuple(name for name in names if name not in LISTS)


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """These metrics, each once; those of `SHOWN` if there are none."""
    known, plain = choosable(), [name.replace("-", "_") for name in names]
    for name in plain:
        if name not in known:
            raise UserError(
                f"unknown metric: there are {', '.join(known)}", option="metrics", value=name
            )
    return tuple(dict.fromkeys(plain)) or SHOWN


def metric_title(metric: str) -> str:
    """In the middle of a sentence."""
    match metric.split(":"):
        case [name] if name in TITLES:
            return TITLES[name]
        case ["acc_after", task]:
            return f"ACC after task {task}"
        case ["accuracy", after, task]:
            return f"task {task} after task {after}"
        case ["every_task", task]:
            return f"every task: task {task} decides"
    return metric.replace("_", " ").replace(".", ": ")


def column_title(metric: str) -> str:
    title = metric_title(metric)
    return title[0].upper() + title[1:]
