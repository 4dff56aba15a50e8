"""Which maps of features the runs of a report allow, and what they show: one network under two sets
of statistics (Figure 1 b/c), and old and new classes around a task (Figure 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bntricks.errors import UserError
from bntricks.report.charts import Figure
from bntricks.report.groups import Group, cut_down_label, stream_title
from bntricks.report.map_chart import TitledPanel, map_chart
from bntricks.runs import maps
from bntricks.runs.maps import BiasedPhi, Map
from bntricks.runs.record import Record

HOW = (
    "Fill and shape: label; edge: prediction; background: rough prediction regions, by the nearest "
    "points. The directions of t-SNE mean nothing."
)


def feature_maps(groups: Sequence[Group]) -> Iterator[Figure]:
    """Every map that the folders of these runs allow, of the first seed that has it."""
    for group in groups:
        for record in group.records:
            if (features := _map(record, "statistics")) and features.biased_phi:
                yield _statistics(group, record, features, features.biased_phi)
                break
    for er in groups:
        for bnt in groups:
            if (er.method, bnt.method) == ("er", "er-bnt") and er.comparable(bnt):
                yield from _overlaps(er, bnt)


def _statistics(group: Group, record: Record, features: Map, measured: BiasedPhi) -> Figure:
    # A map left by another training would contradict the record's numbers.
    recorded = np.array(record.accuracy[-1], dtype=np.float64)
    mapped = np.array(measured.accuracy)
    if recorded.shape != mapped.shape or not np.allclose(mapped, recorded, atol=maps.ROUNDING):
        raise UserError(
            f"the map and the record in {record.path} are of different trainings: delete both, "
            "and the study makes them again"
        )
    accs = {"balanced": measured.acc, "biased": measured.biased_acc}
    panels = [TitledPanel(f"{p.name} φ: ACC {accs[p.name]:.1f}%", p) for p in features.panels]
    text = (
        "t-SNE of the features of test images under two sets of statistics of one network: its own "
        "φ, and φ after 100 more batches of the last task. The share of predictions that fall on "
        f"the last task's classes goes from {measured.share:.1f}% to {measured.biased_share:.1f}%. "
    )
    title = f"Balanced and biased statistics, {_source(group, group.label, record)}"
    chart, points = map_chart(features, panels)
    return Figure(f"map-statistics-{group.stream}", title, text + HOW, chart, points)


def _overlaps(er: Group, bnt: Group) -> Iterator[Figure]:
    """At most one figure: of the first seed for which both runs have their maps."""
    with_tricks = {record.seed: record for record in bnt.records}
    for record in er.records:
        if (other := with_tricks.get(record.seed)) is None:
            continue
        plain, tricks = _map(record, "overlap"), _map(other, "overlap")
        if plain is None or tricks is None:
            continue
        by_title = {
            f"before task {plain.task} (ER)": plain.panel("before"),
            "after it with ER": plain.panel("after"),
            "after it with ER-BNT": tricks.panel("after"),
        }
        panels = [TitledPanel(title, panel) for title, panel in by_title.items() if panel]
        # Before the first task there is no network to look at.
        if len(panels) < (3 if plain.task > 1 else 2):
            continue
        if (plain.labels, plain.images) != (tricks.labels, tricks.images):
            raise UserError(
                f"the maps in {record.path} and {other.path} show different images: delete both, "
                "and the study makes them again"
            )
        text = (
            f"t-SNE of the features of test images of the first {plain.task} tasks, before the "
            "last of them was learned, by the run with ER, and after, by those with ER and ER-BNT. "
        )
        both = f"{er.label} and {bnt.label}"
        title = f"Old and new classes around task {plain.task}, {_source(er, both, record)}"
        chart, points = map_chart(plain, panels)
        yield Figure(f"map-overlap-{er.stream}", title, text + HOW, chart, points)
        return


def _source(group: Group, label: str, record: Record) -> str:
    """Which run a map is of."""
    run = f"{stream_title(record.stream)}, {label}, seed {record.seed}"
    return f"{run} {cut_down_label([group])}".rstrip()


def _map(record: Record, probe: str) -> Map | None:
    return None if record.path is None else maps.load(maps.path_in(record.path, probe))
