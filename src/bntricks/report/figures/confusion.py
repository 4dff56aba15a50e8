"""Confusions between classes when the last task is over: as a picture, and as the accuracy of each
class. Records of earlier versions have none."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import altair as alt

from bntricks.report.figures.figure import (
    LETTER,
    SEEDS,
    Figure,
    Row,
    of_stream,
    titled,
    tooltip,
)
from bntricks.report.figures.panels import MOST_PANELS, PERCENT, by_method, facetted
from bntricks.report.groups import RunGroup, on_chart
from bntricks.report.tables.results import measured
from bntricks.report.tables.table import Cell, Table, distinct, drawable
from bntricks.runs.record import Record

CLASSES_UP_TO = 20
"""More of them cannot be told apart in a picture, which then shows tasks."""
SMALLEST, CELL = 130, 16
SMALLEST_LETTER = 6.0
BESIDE = 50.0
"""What a panel needs beside itself and the names of classes: titles, and some air."""
WIDEST, PHONE = 760, 350
"""A figure outside the page, and one on a phone, in points."""


def class_table(groups: Sequence[RunGroup]) -> Table | None:
    """Tabulate the accuracy of each class, a column for each group of runs that has it."""
    recorded = _recorded(groups)
    if not recorded:
        return None
    data = next(iter(recorded.values()))[0].data
    names = distinct(data.class_names)
    columns = [
        [accs for record in own if (accs := record.class_accuracy) is not None]
        for own in recorded.values()
    ]
    rows = tuple(
        (Cell(names[label]), *(measured((accs[label] for accs in own), 1) for own in columns))
        for label in chain.from_iterable(data.classes)
    )
    title = titled("Accuracy of each class after the last task", groups)
    return Table(title, ("Class", *recorded), rows)


def confusion(groups: Sequence[RunGroup]) -> Figure | None:
    """Draw the percentage of each class's test images that are taken for each class, over all
    seeds; by task if there are too many classes."""
    recorded = _recorded(groups)
    if not recorded:
        return None
    classes = next(iter(recorded.values()))[0].data.classes
    by_class = sum(map(len, classes)) <= CLASSES_UP_TO
    shown = [each for each in on_chart(groups) if _recorded([each])]
    if not shown:
        return None
    rows, drawn = (_rows(_recorded(each), by_class=by_class) for each in (groups, shown))
    order = dict.fromkeys(row["true"] for row in rows)
    unit = "class" if by_class else "task"
    beside = BESIDE + LETTER * max(map(len, order))
    side = max(SMALLEST, min(CELL * len(order), int(PHONE - beside)))
    panelled, facet = by_method(drawn, side)
    scale, font = alt.Scale(domain=list(order)), min(11.0, side / len(order) - 3)
    axis = alt.Axis(labelFontSize=max(SMALLEST_LETTER, font), labelOverlap=True)
    place: dict[str, Any] = {"sort": list(order), "scale": scale, "axis": axis}
    tips = {"label:N": "method", "true:N": f"true {unit}", "predicted:N": "taken for"}
    cells = alt.Chart(alt.InlineData(values=panelled), width=side, height=side).mark_rect()
    cells = cells.encode(
        x=alt.X("predicted:N", title=f"taken for {unit}", **place),
        y=alt.Y("true:N", title=f"true {unit}", **place),
        color=alt.Color("share:Q", title="%", scale=PERCENT),
        tooltip=tooltip({**tips, "share:Q .1f": "%", **SEEDS}),
    )
    columns = max(1, int(WIDEST / (side + beside)))
    chart = facetted(cells, facet, columns)
    whole = "each class" if by_class else "the classes of each task together"
    text = (
        f"Test images of {whole} (down) by what they were taken for (across) after the last task, "
        "in percent, mean over seeds. The diagonal is what was recognised"
        + ("." if by_class else ", or taken for another class of the same task.")
    )
    folded = len(shown) > MOST_PANELS
    return of_stream(
        "confusion", "Confusion", text, groups, chart, rows, beside=beside, folded=folded
    )


def _rows(recorded: dict[str, list[Record]], *, by_class: bool) -> list[Row]:
    """Return the shares of each group, also where they are 0."""
    rows: list[Row] = []
    for label, records in recorded.items():
        names = names_of(records[0], by_class=by_class)
        found, order = shares(records, names), list(dict.fromkeys(names.values()))
        rows += [
            {"label": label, "true": true, "predicted": predicted}
            | {"share": found.get((true, predicted), 0.0), "seeds": len(records)}
            for true in order
            for predicted in order
        ]
    return rows


def _recorded(groups: Sequence[RunGroup]) -> dict[str, list[Record]]:
    """Return the runs that have confusions, by the label of their group."""
    recorded = {g.label: [r for r in g.records if r.confusion is not None] for g in groups}
    return {label: records for label, records in recorded.items() if records}


def names_of(record: Record, *, by_class: bool) -> dict[int, str]:
    """Name each label, in the order of the tasks."""
    names = distinct([drawable(name) for name in record.data.class_names])
    return {
        label: names[label] if by_class else f"{number}"
        for number, classes in enumerate(record.data.classes, start=1)
        for label in classes
    }


def shares(records: Sequence[Record], names: dict[int, str]) -> dict[tuple[str, str], float]:
    """Compute percentages by true and predicted name, of all images of the true name."""
    counts, images = Counter[tuple[str, str]](), Counter[str]()
    for record in records:
        for true, row in (record.confusion or {}).items():
            for predicted, count in row.items():
                counts[names[true], names[predicted]] += count
                images[names[true]] += count
    return {pair: 100 * count / images[pair[0]] for pair, count in counts.items()}
