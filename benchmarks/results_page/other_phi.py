"""What the same θ would reach under another φ, from the `phi` probe of long runs: a table, and a
figure of ACC over the newest task's share of φ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bntricks.paper import load_study
from bntricks.report.figures.figure import Figure
from bntricks.report.figures.lines import over_share
from bntricks.report.groups import Group, group
from bntricks.report.statistics import mean, sd
from bntricks.report.tables.table import Cell, Table, number, to_markdown
from bntricks.runs.record import Record
from results_page.evidence import has_protocol
from results_page.scales import STREAM

SCALE = "medium"
FREE = {"as_published", "recalibrate"}
"""Options in which these runs may differ."""

TITLE = "What the same θ would reach under another φ"
TEXT = f"""## {TITLE}

After the last task of these runs, φ was set to the moments of other images, and the same θ was
evaluated again: the images in the memory; all training images of all tasks, which nobody has by
then; and for the test images of each task that task's own training images, as if the task were
known. Where a column is above ACC, φ is to blame for the difference; where it is below, θ relies
on the φ that it was trained with. These images are not augmented, unlike those that φ follows in
training, and under such a φ some methods lose two or three points even at their own share of the
newest task: compare columns with each other first.
"""
SHARES = """The same for φ from batches with more and more images of the newest task: {best}.

The two ways to train θ want different φ. Under a balanced φ, ER's θ, which was trained in joint
forwards, takes more old images for new ones; that of ER-Cur+Buf and ER-BNT, which was trained in
separate forwards, takes fewer. That of ER-Balance-Joint-Train, which sees the memory batch in both,
hardly depends on the newest task's share. A likely reason: in joint forwards θ learns to tell old
classes by how they differ from the mean of a batch that is mostly new, and a balanced φ takes that
difference away; in separate forwards it learns them from a batch that is balanced itself. So at
this scale neither half of BN Tricks helps alone: separate forwards leave φ wrong for θ, and with
joint forwards θ is wrong for a balanced φ.
"""
COLUMNS = {
    "ACC": "acc",
    "φ of the memory": "memory_acc",
    "φ of all images": "oracle_acc",
    "φ of each task": "task_acc",
}


def other_phi(records: Sequence[Record]) -> list[str]:
    """The section with its table and the place of its figure; nothing, if no run was probed."""
    groups = probed(records)
    if not groups:
        return []
    lines = [TEXT, to_markdown(_table(groups)), ""]
    if figure := share_figure(records):
        picture = f"![{figure.title}](figures/{figure.name}.svg)"
        lines += [SHARES.format(best=_best(figure)), picture, ""]
    return lines


def share_figure(records: Sequence[Record]) -> Figure | None:
    """ACC over the newest task's share of φ; None, if no run was probed for it."""
    figure = over_share(probed(records))
    return figure and replace(figure, name=f"other-phi-{STREAM}")


def _best(figure: Figure) -> str:
    """At which share each method is best, and how far below it is at the others."""
    sentences = []
    for label in dict.fromkeys(row["label"] for row in figure.rows):
        own = [row for row in figure.rows if row["label"] == label]
        best, worst = (pick(own, key=lambda row: row["acc"]) for pick in (max, min))
        sentences.append(
            f"{label} is best at a share of {best['share']:.0%}, with {best['acc']:.1f}, and worst "
            f"at {worst['share']:.0%}, with {worst['acc']:.1f}"
        )
    return "; ".join(sentences)


def probed(records: Sequence[Record]) -> list[Group]:
    """The runs that were probed, at the protocol of the scale."""
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
    return group(own)


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
