"""From records to one `Report`: everything that tables, charts, page and terminal show, computed
once. Whoever shows a report only renders it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from bntricks.errors import UserError
from bntricks.paper import ScaleName, Study
from bntricks.report.charts import Figure, cost, curves, matrices, per_task, verdict_chart
from bntricks.report.confusion import class_table, confusion
from bntricks.report.groups import Group, by_stream, cut_down_label, group, stream_title
from bntricks.report.maps import feature_maps
from bntricks.report.metrics import chosen
from bntricks.report.results import results_table, verdict_table
from bntricks.report.tables import Table
from bntricks.report.verdicts import Judgement, verdicts
from bntricks.runs.record import Record

TITLE = "BN Tricks: report"


@dataclass(frozen=True, slots=True)
class StreamPart:
    """The part of a report that is about one stream."""

    title: str
    groups: tuple[Group, ...]
    figures: tuple[Figure, ...]
    """In the order they are read."""
    classes: Table | None = None
    """The accuracy of each class, where records say."""


@dataclass(frozen=True, slots=True)
class Report:
    """What some runs say, and what becomes of a study's claims if it is about a study."""

    title: str
    summary: str
    command: str | None
    """What makes the report again."""
    groups: tuple[Group, ...]
    results: Table
    verdicts: tuple[Judgement, ...]
    """Empty without a study, and if the study claims nothing."""
    verdict_table: Table | None
    verdict_figure: Figure | None
    streams: tuple[StreamPart, ...]
    maps: tuple[Figure, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Results, and verdicts if anything is claimed."""
        return (self.results,) if self.verdict_table is None else (self.results, self.verdict_table)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All of them."""
        claims = () if self.verdict_figure is None else (self.verdict_figure,)
        return (*claims, *(f for part in self.streams for f in part.figures), *self.maps)


def build(
    records: Iterable[Record],
    study: Study | None = None,
    scale: ScaleName | None = None,
    title: str | None = None,
    command: str | None = None,
    metrics: Iterable[str] = (),
) -> Report:
    """The report of these runs. With a study and its scale, its claims are judged. The `metrics` of
    the table of results are those of `report.metrics.SHOWN`, unless others are chosen."""
    groups = group(records)
    if not groups:
        raise UserError("no runs to report: train some with `bnt run` or `bnt study`")
    if (study is None) != (scale is None):
        raise UserError("a study is judged at a scale: give both, or neither")
    judgements = verdicts(study, scale, groups) if study and scale else []
    remark = cut_down_label(groups)
    streams = by_stream(groups)
    runs = counted(sum(len(each.records) for each in groups), "run")
    where = ", ".join(map(stream_title, streams))
    cut_down = " Some numbers are of cut-down data." if remark else ""
    return Report(
        title=title or (f"{study.title} ({scale} scale)" if study else TITLE),
        summary=f"{runs} in {counted(len(groups), 'row')}, on {where}.{cut_down}",
        command=command,
        groups=tuple(groups),
        results=results_table(groups, study, scale, chosen(metrics)),
        verdicts=tuple(judgements),
        verdict_table=_claims(judgements, remark, study) if judgements else None,
        verdict_figure=verdict_chart(judgements, remark),
        streams=tuple(_stream_parts(streams)),
        maps=tuple(_named(feature_maps(groups), set())) if not study or study.probe else (),
    )


def _claims(judgements: list[Judgement], remark: str, study: Study | None) -> Table:
    """A study that reproduces nothing of the paper's makes claims of its own."""
    own = study is not None and not study.artefacts
    return verdict_table(judgements, remark, *(["The study's claims"] if own else []))


def _stream_parts(streams: dict[str, list[Group]]) -> Iterator[StreamPart]:
    names: set[str] = set()
    for stream, groups in streams.items():
        figures = [curves(groups), per_task(groups), matrices(groups), cost(groups)]
        if (mistakes := confusion(groups)) is not None:
            figures.append(mistakes)
        named = tuple(_named(figures, names))
        yield StreamPart(stream_title(stream), tuple(groups), named, class_table(groups))


def _named(figures: Iterable[Figure], taken: set[str]) -> Iterator[Figure]:
    """The figures under names that are safe on any disk, and that no two share."""
    for figure in figures:
        plain = re.sub(r"[^a-z0-9]+", "-", figure.name.lower()).strip("-")
        name, number = plain, 1
        while name in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name)
        yield replace(figure, name=name)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
