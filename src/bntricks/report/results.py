"""The two tables of a report: what the runs reached, beside the paper's numbers, and what became of
the paper's claims. A row whose numbers come from cut-down data says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from bntricks.paper import Entry, ScaleName, Side, Study, load_reported
from bntricks.report.groups import OF_THE_METHOD, Group, best, by_stream, stream_title
from bntricks.report.tables import Cell, Table, number, without_empty_columns
from bntricks.report.verdicts import Judgement
from bntricks.runs.config import Config

RESULTS = (
    *("Stream", "Method", "ACC", "Paper ACC", "BWT", "Paper BWT", "Data", "Forgetting"),
    *("Seeds", "Forwards/step", "Images/s"),
)
VERDICTS = (
    *("#", "Verdict", "Claim", "Paper", "Ours", "95% interval", "p (Holm)", "Seeds"),
    *("Compared", "Metric", "Where"),
)
NOT_PROTOCOL = {"method", "stream", "seed", "memory", "device", "threads"} | OF_THE_METHOD
"""Knobs that are no deviation from the paper's protocol, or that a row shows anyway."""


def results_table(
    groups: Sequence[Group], study: Study | None = None, scale: ScaleName | None = None
) -> Table:
    """A row for each group of runs. With a study, the paper's value is that of the same variant."""
    entries = [paper_entry(group, study, scale) for group in groups]
    marks = best(groups, "acc")
    rows = tuple(
        _result(group, entry, mark)
        for group, entry, mark in zip(groups, entries, marks, strict=True)
    )
    notes = tuple(_notes(groups, entries))
    return without_empty_columns(Table("Results", RESULTS, rows, notes))


def verdict_table(judgements: Sequence[Judgement], remark: str = "") -> Table:
    """A row for each claim. The remark, such as "(cut-down data)", stands beside our numbers."""
    ours = f"Ours {remark}".rstrip()
    columns = tuple(ours if column == "Ours" else column for column in VERDICTS)
    rows = tuple(
        (
            number(index, 0),
            Cell(judged.verdict, bold=judged.verdict in ("holds", "does not hold")),
            Cell(judged.claim),
            number(judged.paper),
            number(judged.ours),
            Cell("" if judged.low is None else f"{judged.low:.2f} to {judged.high:.2f}"),
            number(judged.p_holm, 3),
            number(judged.seeds, 0),
            Cell(compared(judged)),
            Cell(metric_title(judged.metric)),
            Cell(judged.where),
        )
        for index, judged in enumerate(judgements, start=1)
    )
    notes = (
        "Differences are in points, A minus B, over the seeds that both sides have; a claim holds "
        "if the 95% interval says so.",
        "p (Holm) is a permutation test's, adjusted for all claims of the study at once. With n "
        "seeds it cannot fall below 2/2ⁿ times the number of claims, so with few seeds a claim can "
        "hold by its interval beside a p of 1: take it as a hint.",
    )
    return without_empty_columns(Table("The paper's claims", columns, rows, notes))


def paper_entry(
    group: Group, study: Study | None = None, scale: ScaleName | None = None
) -> Entry | None:
    """The paper's result of the same method, stream and memory. In a study, the memory that counts
    is that of the paper's scale."""
    memory = group.knobs["memory"]
    if study is not None and scale is not None and group.stream in study.streams:
        for variant in study.variants:
            side = Side(method=group.method, stream=group.stream, variant=variant.label)
            wanted = study.variable(scale, side)
            if all(group.knobs[key] == value for key, value in wanted.items()):
                knobs = study.values("paper", group.stream, variant.label)
                memory = knobs.pop("memory", None)
                if knobs:
                    return None
                break
    return load_reported().find(group.method, group.stream, memory)


def compared(judged: Judgement) -> str:
    """The sides of a claim, as a short formula."""
    if judged.b is None:
        return f"{judged.a} > 0"
    if judged.kind == "similar":
        return f"{judged.a} ≈ {judged.b} (±{judged.margin:g})"
    return f"{judged.a} − {judged.b}" + (", slope" if judged.kind == "trend" else "")


def metric_title(metric: str) -> str:
    match metric.split(":"):
        case ["acc" | "bwt"]:
            return metric.upper()
        case ["acc_after", task]:
            return f"ACC after task {task}"
        case ["accuracy", after, task]:
            return f"task {task} after task {after}"
    return metric.replace("_", " ").replace(".", ": ")


def _result(group: Group, entry: Entry | None, mark: bool) -> tuple[Cell, ...]:
    acc = number(group.mean("acc"), sd=group.sd("acc"))
    paper_acc = number(entry.acc.mean, sd=entry.acc.sd) if entry else Cell()
    paper_bwt = number(entry.bwt.mean, sd=entry.bwt.sd) if entry and entry.bwt else Cell()
    return (
        Cell(stream_title(group.stream)),
        Cell(group.label),
        replace(acc, bold=mark),
        paper_acc,
        number(group.mean("bwt"), sd=group.sd("bwt")),
        paper_bwt,
        Cell(_data(group)),
        number(group.mean("forgetting"), sd=group.sd("forgetting")),
        number(len(group.records), 0),
        number(group.mean("forwards_per_step")),
        number(group.mean("images_per_second"), 0),
    )


def _data(group: Group) -> str:
    data = group.records[0].data
    if not data.cut_down or data.official_images is None:
        return "full"
    return f"cut-down ({data.images['train']} of {data.official_images['train']})"


def _notes(groups: Sequence[Group], entries: Sequence[Entry | None]) -> list[str]:
    notes = [
        "Mean ± standard deviation over seeds, in percent. Bold: the best ACC among methods of the "
        "same stream, data and protocol, joint training aside."
    ]
    if mixed := [stream for stream, own in by_stream(groups).items() if _mixed(own)]:
        notes.append(
            f"Several protocols on {', '.join(map(stream_title, mixed))}: labels say which; "
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


def _mixed(groups: Sequence[Group]) -> bool:
    return not all(a.comparable(b) for a, b in combinations(groups, 2))


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
