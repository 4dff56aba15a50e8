"""Which maps of features the runs of a report allow, and what they show: one network under two sets
of statistics (Figure 1 b/c), and old and new classes around a task (Figure 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from bntricks.errors import UserError
from bntricks.report.charts import Figure
from bntricks.report.groups import Group, group, stream_title
from bntricks.report.map_chart import Shown, map_chart
from bntricks.report.results import cut_down_label
from bntricks.runs import maps
from bntricks.runs.maps import BiasedPhi, Map
from bntricks.runs.record import Record

HOW = (
    "Fill and shape: label; edge: prediction; background: rough prediction regions, by the nearest "
    "points. The directions of t-SNE mean nothing."
)


def feature_maps(records: Iterable[Record]) -> Iterator[Figure]:
    """Every map that the folders of these runs allow, of the first seed that has it."""
    groups = group(records)
    for one in groups:
        for record in one.records:
            if (found := _map(record, "statistics")) and found.biased_phi:
                yield _statistics(one, record, found, found.biased_phi)
                break
    for er in groups:
        for bnt in groups:
            if (er.method, bnt.method) == ("er", "er-bnt") and er.comparable(bnt):
                yield from _overlaps(er, bnt)


def _statistics(one: Group, record: Record, found: Map, measured: BiasedPhi) -> Figure:
    # A map of another training beside this record would show what the record's numbers deny.
    if not np.allclose(measured.accuracy, record["accuracy"][-1], atol=maps.ROUNDING):
        raise UserError(
            f"the map and the record in {record['path']} are of different trainings: delete both, "
            "and the study makes them again"
        )
    accs = {"balanced": measured.acc, "biased": measured.biased_acc}
    shown = [Shown(f"{p.name} φ: ACC {accs[p.name]:.1f}%", p) for p in found.panels]
    text = (
        "t-SNE of the features of test images under two sets of statistics of one network: its own "
        "φ, and φ after 100 more batches of the last task. The share of predictions that fall on "
        f"the last task's classes goes from {measured.share:.1f}% to {measured.biased_share:.1f}%. "
    )
    title = f"Balanced and biased statistics, {_whose(one.label, record)}"
    chart, points = map_chart(found, shown)
    return Figure(f"map-statistics-{one.stream}", title, text + HOW, chart, points)


def _overlaps(er: Group, bnt: Group) -> Iterator[Figure]:
    """At most one figure: of the first seed of which both runs have their maps."""
    theirs = {record["seed"]: record for record in bnt.records}
    for record in er.records:
        plain = _map(record, "overlap")
        tricks = _map(theirs.get(record["seed"], {}), "overlap")
        if plain is None or tricks is None:
            continue
        panels = {
            f"before task {plain.task} (ER)": plain.panel("before"),
            "after it with ER": plain.panel("after"),
            "after it with ER-BNT": tricks.panel("after"),
        }
        shown = [Shown(title, panel) for title, panel in panels.items() if panel is not None]
        # Before the first task there is no network to look at.
        if len(shown) < (3 if plain.task > 1 else 2):
            continue
        if (plain.labels, plain.images) != (tricks.labels, tricks.images):
            raise UserError(
                f"the maps in {record['path']} and {theirs[record['seed']]['path']} show different "
                "images: delete both, and the study makes them again"
            )
        text = (
            f"t-SNE of the features of test images of the first {plain.task} tasks, before the "
            "last of them was learned, by the run with ER, and after, by those with ER and ER-BNT. "
        )
        both = f"{er.label} and {bnt.label}"
        title = f"Old and new classes around task {plain.task}, {_whose(both, record)}"
        chart, points = map_chart(plain, shown)
        yield Figure(f"map-overlap-{er.stream}", title, text + HOW, chart, points)
        return


def _whose(label: str, record: Record) -> str:
    told = f"{stream_title(record['stream'])}, {label}, seed {record['seed']}"
    return " ".join(filter(None, (told, cut_down_label([record]))))


def _map(record: Record, probe: str) -> Map | None:
    return maps.load(maps.path_in(Path(record["path"]), probe)) if "path" in record else None
