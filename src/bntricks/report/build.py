"""Builds one `Report` from records: everything that tables, charts, page and terminal show,
computed once. All others only render it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bntricks.errors import UserError
from bntricks.paper import ScaleName, Study
from bntricks.report.figures.claims import verdict_chart
from bntricks.report.figures.confusion import class_table, confusion
from bntricks.report.figures.figure import Figure
from bntricks.report.figures.lines import cost, curves, over_memory, over_share, per_task
from bntricks.report.figures.maps import feature_maps
from bntricks.report.figures.panels import matrices, task_lines
from bntricks.report.groups import (
    MOST_DRAWN,
    RunGroup,
    by_stream,
    cut_down_label,
    first_drawn,
    group,
    on_chart,
    stream_title,
)
from bntricks.report.overview import Overview, claims_title, moved, overview
from bntricks.report.protocol import changed_protocol
from bntricks.report.tables.paper_form import memories, paper_form
from bntricks.report.tables.results import cost_table, of_one_stream, results_table, verdict_table
from bntricks.report.tables.table import Table
from bntricks.report.verdicts import Judgement, verdicts
from bntricks.runs.metrics import chosen
from bntricks.runs.record import Record

TITLE = "BN Tricks: report"


@dataclass(frozen=True, slots=True)
class StreamPart:
    """The part of a report that is about one stream."""

    title: str
    groups: tuple[RunGroup, ...]
    figures: tuple[Figure, ...]
    """In the order they are read."""
    classes: Table | None = None
    """The accuracy of each class, where records say."""
    results: Table | None = None
    """A row for each group, where they are too many to draw all of them."""
    folded: bool = False
    """Whether a page shows it only on demand, because another part compares it with its like."""


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report, with verdicts if it is about a study."""

    title: str
    summary: str
    overview: Overview
    command: str | None
    """What makes the report again."""
    groups: tuple[RunGroup, ...]
    form: Table
    """The results as the paper would print them."""
    results: Table
    """The same and more, a row for each group of runs."""
    cost: Table
    verdicts: tuple[Judgement, ...]
    """Empty without a study, and if the study claims nothing."""
    verdict_table: Table | None
    verdict_figure: Figure | None
    streams: tuple[StreamPart, ...]
    maps: tuple[Figure, ...]
    metrics: tuple[str, ...]
    """Of the table of results."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Results, verdicts if anything is claimed, and the results in the paper's form."""
        claims = () if self.verdict_table is None else (self.verdict_table,)
        return (self.results, *claims, self.form, self.cost)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures of all parts."""
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
    """Build the report of these runs. With a study and its scale, its claims are judged. The
    `metrics` in the table of results are by default those of `runs.metrics.SHOWN`."""
    groups = group(records)
    if not groups:
        raise UserError("no runs to report: train some with `bnt run` or `bnt study`")
    if (study is None) != (scale is None):
        raise UserError("a study is judged at a scale: give both, or neither")
    judged = study is not None and not moved(study, groups)
    judgements = verdicts(study, scale, groups) if judged and study and scale else []
    remark = cut_down_label(groups)
    opening = overview(groups, judgements, study, scale)
    cut_down = f" Learned from {remark.strip('()')}." if remark else ""
    claims = claims_title(study) if study else ""
    form = paper_form(groups, study)
    names = chosen(metrics)
    results = results_table(groups, study, scale, names)
    return Report(
        title=title or (f"{study.title} ({scale} scale)" if study else TITLE),
        summary=f"{opening.asked}{cut_down}",
        overview=opening,
        command=command,
        groups=tuple(groups),
        form=replace(form, notes=(*form.notes, *changed_protocol(groups, study, scale))),
        results=results,
        cost=cost_table(groups, results),
        verdicts=tuple(judgements),
        verdict_table=verdict_table(judgements, remark, claims) if judgements else None,
        verdict_figure=verdict_chart(judgements, remark, "Differences behind the verdicts"),
        streams=tuple(_stream_parts(by_stream(groups), names)),
        maps=tuple(_named(feature_maps(groups), set())) if not study or study.probe else (),
        metrics=names,
    )


def _stream_parts(
    streams: dict[str, list[RunGroup]], metrics: Sequence[str]
) -> Iterator[StreamPart]:
    """Make a part for each stream or, where sizes of the memory are compared, one for the
    comparison and one for each size."""
    names: set[str] = set()
    for stream, groups in streams.items():
        title = stream_title(stream)
        if figure := over_memory(groups):
            labels = {row["label"] for row in figure.rows}
            sized = {each.label: each for m in memories(groups) for each in _with_memory(groups, m)}
            lines = [each for label, each in sized.items() if label in labels]
            yield StreamPart(title, tuple(first_drawn(lines)), tuple(_named([figure], names)))
        for memory in memories(groups):
            own = first_drawn(_with_memory(groups, memory))
            drawn = [curves(own), per_task(own), over_share(own), task_lines(own), matrices(own)]
            drawn += [cost(own), confusion(own)]
            size = "" if memory is None else f", |M| = {memory}"
            figures = (
                replace(figure, name=f"{figure.name}-{memory}", title=f"{figure.title}{size}")
                if size
                else figure
                for figure in drawn
                if figure is not None
            )
            named = tuple(_named(figures, names))
            folded = memory is not None
            classes = class_table(on_chart(own))
            table = of_one_stream(own, metrics) if len(own) > MOST_DRAWN else None
            yield StreamPart(f"{title}{size}", tuple(own), named, classes, table, folded)


def _with_memory(groups: Sequence[RunGroup], memory: int | None) -> list[RunGroup]:
    """Select the groups of one size, and those without a memory, under labels without the size."""
    if memory is None:
        return list(groups)
    return [
        replace(each, label=each.unsized, remarks=_without_size(each))
        for each in groups
        if each.knobs["memory"] in (None, memory)
    ]


def _without_size(own: RunGroup) -> dict[str, str]:
    return {key: text for key, text in own.remarks.items() if key != "memory"}


def _named(figures: Iterable[Figure], taken: set[str]) -> Iterator[Figure]:
    """Give figures distinct names that are safe on any disk."""
    for figure in figures:
        plain = re.sub(r"[^a-z0-9]+", "-", figure.name.lower()).strip("-")
        name, number = plain, 1
        while name in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name)
        yield replace(figure, name=name)
