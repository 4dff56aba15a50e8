"""Tables of a diagnosis, for the page and the terminal."""

from bntricks.doctor.accuracy import Difference
from bntricks.doctor.diagnosis import Diagnosis
from bntricks.report.tables.table import Cell, Table, number, table_of


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
    unknown = Cell("cannot be determined")
    rows = [
        {
            "Depth": number(depth, 0),
            "Layer": Cell(layer.name),
            "Kind": Cell(layer.kind),
            "Channels": number(layer.channels, 0),
            "Distance": number(layer.distance),
            "Mean shift": number(layer.shift),
            "Log variance ratio": number(layer.log_ratio),
            "Symmetric KL": number(layer.kl, 3),
            "Newest share": unknown if layer.shares is None else number(layer.shares[newest]),
            "Separation": number(layer.separation),
            "Unexplained": number(layer.unexplained),
        }
        for depth, layer in enumerate(diagnosis.layers, start=1)
    ]
    return table_of("Each layer", rows)


def group_table(diagnosis: Diagnosis) -> Table:
    """Tabulate the groups that the diagnosis was made on."""
    rows = [
        {
            "Group": Cell(group.name),
            "Samples": number(group.samples, 0),
            "Classes": number(len(group.classes), 0),
            "Labels": Cell(", ".join(map(str, group.classes))),
        }
        for group in diagnosis.groups
    ]
    note = "In the order they were learned; the last is the newest, all others are old."
    return table_of("Each group", rows, [note])


def _change(difference: Difference) -> Cell:
    return Cell(f"{difference.signed} ({difference.interval})", difference.points)
