"""What the same θ would reach under another φ, from the `phi` probe of long runs."""

from __future__ import annotations

from collections.abc import Sequence

from bntricks.paper import load_study
from bntricks.report.groups import Group, group
from bntricks.report.statistics import mean, sd
from bntricks.report.tables import Cell, Table, number, to_markdown
from bntricks.runs.record import Record
from results_page.evidence import has_protocol
from results_page.scales import STREAM

SCALE = "medium"
FREE = {"balance", "as_published", "recalibrate"}
"""Options in which these runs may differ."""

TEXT = """## What the same θ would reach under another φ

After the last task of these runs, φ was set to the moments of other images, and the same θ was
evaluated again: the images in the memory; all training images of all tasks, which nobody has by
then; and for the test images of each task that task's own training images, as if the task were
known. Where a column is above ACC, φ is to blame for the difference; where it is below, θ relies
on the φ that it was trained with.
"""
COLUMNS = {
    "ACC": "acc",
    "φ of the memory": "memory_acc",
    "φ of all images": "oracle_acc",
    "φ of each task": "task_acc",
}


def other_phi(records: Sequence[Record]) -> list[str]:
    """The section with its table; nothing, if no run was probed."""
    values = load_study("pilot").values(SCALE, STREAM)
    own = [
        record
        for record in records
        if record.phi is not None
        and record.trained_as is None
        and record.stream == STREAM
        and not record.data.cut_down
        and has_protocol(record, values | record.config.model_dump(include=FREE))
    ]
    return [TEXT, to_markdown(_table(group(own))), ""] if own else []


def _table(groups: Sequence[Group]) -> Table:
    return Table(
        f"The same θ under another φ, {SCALE} scale",
        ("Method", *COLUMNS, "Seeds"),
        tuple(
            (Cell(each.label), *_accuracies(each), number(len(each.records), 0)) for each in groups
        ),
        ("ACC in percent, mean ± standard deviation over the seeds that were probed.",),
    )


def _accuracies(own: Group) -> list[Cell]:
    probed = [record.phi for record in own.records if record.phi is not None]
    columns = [
        [value for each in probed if (value := getattr(each, name)) is not None]
        for name in COLUMNS.values()
    ]
    return [number(mean(values), 1, sd=sd(values)) for values in columns]
