"""Tables of one or several diagnoses, for the page and the terminal."""

from collections.abc import Mapping

from bntricks.doctor.accuracy import Difference
from bntricks.doctor.diagnosis import Diagnosis
from bntricks.report.tables.table import Cell, Table, number

Diagnoses = Mapping[str, Diagnosis]
"""By the name of the model; the networks have the same architecture."""


def accuracy_table(diagnosis: Diagnosis) -> Table:
    """Tabulate accuracies, a row for each set of statistics."""
    names = [group.name for group in diagnosis.groups]
    rows = tuple(
        (
            Cell(f"φ {tried.statistics}"),
            *(number(value, 1) for value in (tried.old, tried.newest, tried.all)),
            *(
                Cell() if tried is diagnosis.as_is else _change(d)
                for d in (tried.old_difference, tried.all_difference)
            ),
            *(number(tried.accuracy[name], 1) for name in names),
        )
        for tried in diagnosis.counterfactuals
    )
    columns = ("Statistics", "Old, %", "Newest, %", "All, %", "Old, points", "All, points", *names)
    note = (
        "Points are against φ as it is, with 95% intervals paired over samples; every class counts "
        "the same."
    )
    return Table("Accuracy of the same weights", columns, rows, (note,))


def layer_table(diagnosis: Diagnosis) -> Table:
    """Tabulate layers, in the order of the pass."""
    newest = diagnosis.groups[-1].name
    rows = tuple(
        (
            number(depth, 0),
            Cell(layer.name),
            Cell(layer.kind),
            number(layer.channels, 0),
            number(layer.distance),
            number(layer.shift),
            number(layer.log_ratio),
            number(layer.kl, 3),
            Cell("cannot be determined") if layer.shares is None else number(layer.shares[newest]),
            number(layer.separation),
            number(layer.unexplained),
        )
        for depth, layer in enumerate(diagnosis.layers, start=1)
    )
    columns = (
        *("Depth", "Layer", "Kind", "Channels", "Distance", "Mean shift", "Log variance ratio"),
        *("Symmetric KL", "Newest share", "Separation", "Unexplained"),
    )
    return Table("Layers", columns, rows)


def group_table(diagnosis: Diagnosis) -> Table:
    """Tabulate the groups that the diagnosis was made on."""
    rows = tuple(
        (
            Cell(group.name),
            number(group.samples, 0),
            number(len(group.classes), 0),
            Cell(", ".join(map(str, group.classes))),
        )
        for group in diagnosis.groups
    )
    note = "In the order they were learned; the last is the newest, all others are old."
    return Table("Groups", ("Group", "Samples", "Classes", "Labels"), rows, (note,))


def cost_table(diagnoses: Diagnoses) -> Table:
    """Tabulate models: their accuracy with φ as it is, and the change by balanced φ."""
    rows = tuple(
        (
            Cell(name),
            *(number(value, 1) for value in (as_is.old, as_is.newest, as_is.all)),
            *map(
                _change,
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


def _change(difference: Difference) -> Cell:
    return Cell(f"{difference.signed} ({difference.interval})", difference.points)
