"""Which class is taken for which when the last task is over: as a picture, and as the accuracy of
each class. Records of earlier versions do not say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import altair as alt

from bntricks.report.figures.figure import HIDDEN, LETTER, NOT_HIDDEN, TIP_SEEDS, Figure, Row
from bntricks.report.figures.panels import MOST_PANELS, by_method
from bntricks.report.groups import Group, cut_down_label, stream_title
from bntricks.report.statistics import mean, sd
from bntricks.report.tables.table import SKIPPED, Cell, Table, distinct, drawable, number
from bntricks.runs.record import Record

CLASSES_UP_TO = 20
"""More of them cannot be told apart in a picture, which then shows tasks."""
SMALLEST, CELL = 130, 16
SMALLEST_LETTER = 6.0
BESIDE = 50.0
"""What a panel needs beside itself and the names of classes: titles, and some air."""
WIDEST, PHONE = 760, 350
"""A figure outside the page, and one on a phone, in points."""


def class_table(groups: Sequence[Group]) -> Table | None:
    """A row for each class, a column for each group of runs; None if none of them says."""
    recorded = _recorded(groups)
    if not recorded:
        return None
    data = next(iter(recorded.values()))[0].data
    names = distinct(data.class_names)
    rows = []
    for label in chain.from_iterable(data.classes):
        cells = []
        for records in recorded.values():
            values = [r.class_accuracy[label] for r in records if r.class_accuracy is not None]
            known = [value for value in values if value is not None]
            cells.append(number(mean(known), 1, sd=sd(known)) if known else SKIPPED)
        rows.append((Cell(names[label]), *cells))
    title = f"Accuracy of each class after the last task, {_where(groups)}"
    return Table(title, ("Class", *recorded), tuple(rows))


def confusion(groups: Sequence[Group]) -> Figure | None:
    """Of all test images of a class, how many were taken for which, in percent over all seeds.
    Tasks stand for their classes where there are too many to show."""
    recorded = _recorded(groups)
    if not recorded:
        return None
    classes = next(iter(recorded.values()))[0].data.classes
    by_class = sum(map(len, classes)) <= CLASSES_UP_TO
    rows: list[Row] = []
    order: dict[str, None] = {}
    for label, records in recorded.items():
        names = _names(records[0], by_class=by_class)
        order |= dict.fromkeys(names.values())
        shares = _shares(records, names)
        rows += [
            {"label": label, "true": true, "predicted": predicted, "share": share}
            | {"seeds": len(records)}
            for (true, predicted), share in shares.items()
        ]
    unit = "class" if by_class else "task"
    beside = BESIDE + LETTER * max(map(len, order))
    side = max(SMALLEST, min(CELL * len(order), int(PHONE - beside)))
    shown, facet = by_method(rows, side)
    scale = alt.Scale(domain=list(order))
    room = side / len(order)
    axis = alt.Axis(labelFontSize=max(SMALLEST_LETTER, min(11.0, room - 3)), labelOverlap=True)
    x, y = (
        channel(f"{field}:N", title=title, sort=list(order), scale=scale, axis=axis)
        for channel, field, title in (
            (alt.X, "predicted", f"taken for {unit}"),
            (alt.Y, "true", f"true {unit}"),
        )
    )
    chart = (
        alt.Chart(alt.InlineData(values=shown), width=side, height=side)
        .mark_rect()
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "share:Q", title="%", scale=alt.Scale(scheme="viridis", domain=[0, 100])
            ),
            tooltip=[
                alt.Tooltip("label:N", title="method"),
                alt.Tooltip("true:N", title=f"true {unit}"),
                alt.Tooltip("predicted:N", title="taken for"),
                alt.Tooltip("share:Q", title="%", format=".1f"),
                TIP_SEEDS,
            ],
        )
        .transform_filter(NOT_HIDDEN)
        .facet(facet=facet, columns=max(1, int(WIDEST / (side + beside))))
        .add_params(HIDDEN)
        .resolve_axis(x="independent", y="independent")
    )
    whole = "each class" if by_class else "the classes of each task together"
    text = (
        f"Test images of {whole} (down) by what they were taken for (across) after the last task, "
        "in percent, mean over seeds. The diagonal is what was recognised"
        + ("." if by_class else ", or taken for another class of the same task.")
    )
    title = f"Confusion, {_where(groups)}"
    name, folded = f"confusion-{groups[0].stream}", len(recorded) > MOST_PANELS
    return Figure(name, title, text, chart, rows, beside=beside, folded=folded)


def _recorded(groups: Sequence[Group]) -> dict[str, list[Record]]:
    """The runs that say, by the label of their group."""
    recorded = {g.label: [r for r in g.records if r.confusion is not None] for g in groups}
    return {label: records for label, records in recorded.items() if records}


def _names(record: Record, *, by_class: bool) -> dict[int, str]:
    """What each label is shown as, in the order of the tasks."""
    names = distinct([drawable(name) for name in record.data.class_names])
    return {
        label: names[label] if by_class else f"{number}"
        for number, classes in enumerate(record.data.classes, start=1)
        for label in classes
    }


def _shares(records: Sequence[Record], names: dict[int, str]) -> dict[tuple[str, str], float]:
    """By true and predicted name, in percent of all images of that true name."""
    counts: dict[tuple[str, str], int] = {}
    images: dict[str, int] = {}
    for record in records:
        for true, row in (record.confusion or {}).items():
            for predicted, count in row.items():
                pair = names[true], names[predicted]
                counts[pair] = counts.get(pair, 0) + count
                images[names[true]] = images.get(names[true], 0) + count
    return {pair: 100 * count / images[pair[0]] for pair, count in counts.items()}


def _where(groups: Sequence[Group]) -> str:
    return f"{stream_title(groups[0].stream)} {cut_down_label(groups)}".rstrip()
