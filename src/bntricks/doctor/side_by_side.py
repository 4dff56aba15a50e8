"""Several models in front of the doctor at once: the verdict on each, what φ costs it, and how far
it is from the population."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from bntricks.doctor.accuracy import Difference
from bntricks.doctor.charts import DISTANCE, by_depth
from bntricks.doctor.diagnosis import Diagnosis
from bntricks.doctor.page import verdict_html
from bntricks.doctor.verdict import FAR
from bntricks.report.figures.figure import Figure
from bntricks.report.page.html import figure_html, table_html
from bntricks.report.tables.table import Cell, Table, number

Diagnoses = Mapping[str, Diagnosis]
"""By the name of the model. Their networks are alike."""


def side_by_side_html(diagnoses: Diagnoses) -> str:
    """Every verdict in a column of its own, and what they have in common."""
    verdicts = "".join(
        f"<div><h3>{escape(name)}</h3>{verdict_html(each)}</div>"
        for name, each in diagnoses.items()
    )
    return (
        f'<div class="side-by-side">{verdicts}</div>'
        + table_html(cost_table(diagnoses), "cost-table")
        + figure_html(distances(diagnoses))
    )


def cost_table(diagnoses: Diagnoses) -> Table:
    """A row for each model: its accuracy with φ as it is, and the change that balanced φ makes."""

    def change(difference: Difference) -> Cell:
        return Cell(f"{difference.signed} ({difference.interval})", difference.points)

    rows = tuple(
        (
            Cell(name),
            *(number(value, 1) for value in (as_is.old, as_is.newest, as_is.all)),
            *map(
                change,
                (balanced.old_difference, balanced.newest_difference, balanced.all_difference),
            ),
        )
        for name, each in diagnoses.items()
        for as_is, balanced in [(each.as_is, each.balanced)]
    )
    columns = (
        *("Model", "Old, %", "Newest, %", "All, %"),
        *("φ costs on old", "φ costs on newest", "φ costs on all"),
    )
    note = (
        "What φ costs is what the same weights gain with φ of balanced data, in points, with 95% "
        "intervals paired over samples; every class counts the same."
    )
    return Table("What φ costs each model", columns, rows, (note,))


def distances(diagnoses: Diagnoses) -> Figure:
    """How far the φ of each model is from its balanced population, by depth."""
    rows = [
        {"depth": depth, "layer": layer.name, "measure": name, "value": layer.distance}
        for name, each in diagnoses.items()
        for depth, layer in enumerate(each.layers, start=1)
    ]
    text = (
        "From the input on the left to the output on the right, in standard deviations, √(2·KL). "
        f"Dashed: {FAR}, from where on a layer counts as far."
    )
    chart = by_depth(rows, tuple(diagnoses), DISTANCE, dashed=FAR)
    return Figure("distances", "Distance of φ from the balanced population", text, chart, rows)
