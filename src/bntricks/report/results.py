"""The two tables of a report: what the runs reached, beside the paper's numbers, and what became of
the paper's claims. A row whose numbers come from cut-down data says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from bntricks.paper import Claim, Entry, ScaleName, Side, Study, load_reported
from bntricks.report.groups import OF_THE_METHOD, Group, best, by_stream, stream_title
from bntricks.report.metrics import SHOWN, column_title, metric_title
from bntricks.report.statistics import mean, sd
from bntricks.report.tables import SKIPPED, Cell, Table, interval, number, table_of
from bntricks.report.verdicts import (
    CHANGED,
    DIGITS,
    FEWEST_SEEDS,
    Judgement,
    by_seed,
    changes,
    groups_of,
    paper_entry,
)
from bntricks.runs.config import Config

NOT_PROTOCOL = {"method", "stream", "seed", "memory", "device", "threads"} | OF_THE_METHOD
"""Knobs that are no deviation from the paper's protocol, or that a row shows anyway."""


def results_table(
    groups: Sequence[Group],
    study: Study | None = None,
    scale: ScaleName | None = None,
    metrics: Sequence[str] = SHOWN,
) -> Table:
    """A row for each group of runs. With a study, the paper's value is that of the same variant."""
    entries = [_paper_entry(group, study, scale) for group in groups]
    notes = _notes(groups, entries)
    if changed := _changes(groups, study, scale):
        notes.append(f"Not the study's own protocol: {', '.join(changed)}.")
    rows = [
        _result(group, entry, mark, metrics)
        for group, entry, mark in zip(groups, entries, best(groups), strict=True)
    ]
    return table_of("Results", rows, notes)


def verdict_table(
    judgements: Sequence[Judgement], remark: str = "", title: str = "The paper's claims"
) -> Table:
    """A row for each claim. The remark, such as "(cut-down data)", stands beside our numbers."""
    rows = [
        {
            "#": number(index, 0),
            "Verdict": Cell(
                f"{judged.verdict} ({judged.reason})" if judged.reason else judged.verdict,
                bold=judged.verdict in ("holds", "does not hold"),
            ),
            "Claim": Cell(judged.claim.text),
            "Paper": number(judged.paper),
            f"Ours {remark}".rstrip(): number(judged.ours),
            "95% interval": interval(judged.low, judged.high, DIGITS),
            "p (Holm)": number(judged.p_holm, 3),
            "Seeds": number(judged.seeds, 0),
            "Compared": Cell(compared(judged.claim)),
            "Metric": Cell(metric_title(judged.metric)),
            "Where": Cell(judged.claim.where),
        }
        for index, judged in enumerate(judgements, start=1)
    ]
    notes = [
        "Differences are in points, A minus B, over the seeds that both sides have; a claim holds "
        "if the 95% interval says so.",
        "p (Holm) is a permutation test's, adjusted for all claims of the study at once. With n "
        "seeds it cannot fall below 2/2ⁿ times the number of claims, so with few seeds a claim can "
        "hold by its interval beside a p of 1: take it as a hint.",
    ]
    if any(judged.claim.metric == "every_task" for judged in judgements):
        notes.append("A claim about every task has the numbers of the task that decides it.")
    if any(judged.reason for judged in judgements):
        notes.append(
            f"Not judged: a verdict needs at least {FEWEST_SEEDS} seeds that all sides have, and "
            "runs of more than the smoke scale, which only shows that everything works."
        )
    if any(judged.reason == CHANGED for judged in judgements):
        notes.append(
            "Changed protocol: the runs have options that the study does not have at this scale, "
            "so its claims are not about them."
        )
    return table_of(title, rows, notes)


def compared(claim: Claim) -> str:
    """The sides of a claim, as a short formula."""
    if claim.b is None:
        return f"{claim.a} > 0"
    if claim.kind == "similar":
        return f"{claim.a} ≈ {claim.b} (±{claim.margin:g})"
    return f"{claim.a} − {claim.b}" + (", slope" if claim.kind == "trend" else "")


def _changes(groups: Sequence[Group], study: Study | None, scale: ScaleName | None) -> list[str]:
    """What the runs of a study do differently from what it says, in words."""
    if study is None or scale is None or not study.streams:
        return []
    found: dict[str, None] = {}
    for group in groups:
        for variant in study.variants:
            side = Side(method=group.method, stream=group.stream, variant=variant.label)
            if groups_of(study, scale, side, [group]):
                for key, (own, wanted) in changes(study, scale, side, group).items():
                    found[f"{key.replace('_', ' ')} {own} (study: {wanted})"] = None
                break
    return list(found)


def _paper_entry(group: Group, study: Study | None, scale: ScaleName | None) -> Entry | None:
    """The paper's result of the same method, stream and memory. In a study, the memory that counts
    is that of the paper's scale."""
    if study is not None and scale is not None and group.stream in study.streams:
        for variant in study.variants:
            side = Side(method=group.method, stream=group.stream, variant=variant.label)
            if groups_of(study, scale, side, [group]):
                return paper_entry(study, side)
    return load_reported().find(group.method, group.stream, group.knobs["memory"])


def _result(
    group: Group, entry: Entry | None, mark: bool, metrics: Sequence[str]
) -> dict[str, Cell]:
    paper = {} if entry is None else {"acc": entry.acc, "bwt": entry.bwt}
    numbers: dict[str, Cell] = {}
    for name in metrics:
        values = list(by_seed(group.records, name).values())
        cell = number(mean(values), sd=sd(values)) if values else SKIPPED
        numbers[column_title(name)] = replace(cell, bold=mark and name == "acc")
        if name in ("acc", "bwt"):
            reported = paper.get(name)
            beside = number(reported.mean, sd=reported.sd) if reported else Cell()
            numbers[f"Paper {column_title(name)}"] = beside
    images, official = group.records[0].data.images, group.records[0].data.official_images
    data = "full"
    if group.cut_down and official is not None:
        data = f"cut-down ({images['train']} of {official['train']})"
    return {
        "Stream": Cell(stream_title(group.stream)),
        "Method": Cell(group.label),
        **numbers,
        "Data": Cell(data),
        "Seeds": number(len(group.records), 0),
        "Forwards/step": number(group.mean("forwards_per_step")),
        "Images/s": number(group.mean("images_per_second"), 0),
    }


def _notes(groups: Sequence[Group], entries: Sequence[Entry | None]) -> list[str]:
    notes = [
        "Mean ± standard deviation over seeds, in percent. Bold: the best ACC among methods of the "
        "same stream, data and protocol, joint training aside."
    ]
    mixed = [
        stream_title(stream)
        for stream, own in by_stream(groups).items()
        if not all(a.comparable(b) for a, b in combinations(own, 2))
    ]
    if mixed:
        notes.append(
            f"Several protocols on {', '.join(mixed)}: labels say which; "
            "nothing is averaged across them, and rows of different protocols do not compare."
        )
    pairs = [(group, entry) for group, entry in zip(groups, entries, strict=True) if entry]
    if deviations := sorted({text for pair in pairs for text in _deviations(*pair)}):
        notes.append(f"Not the paper's protocol: {', '.join(deviations)}.")
    if any(group.cut_down for group in groups):
        notes.append(
            "Cut-down: learned from so many of the official training images. Such numbers stand "
            "beside the paper's for orientation and are not comparable with them."
        )
    return notes


def _deviations(group: Group, entry: Entry) -> list[str]:
    default = Config().model_dump(mode="json")
    deviations = [
        f"{key.replace('_', ' ')} {group.knobs[key]} "
        f"(paper: {'all' if default[key] is None else default[key]})"
        for key in default.keys() - NOT_PROTOCOL
        if group.knobs[key] != default[key]
    ]
    if group.knobs["memory"] not in (None, entry.memory):
        deviations.append(f"memory {group.knobs['memory']} (paper: {entry.memory})")
    return deviations
