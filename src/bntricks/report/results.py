"""The two tables of a report: what the runs reached, with the paper's numbers beside, and what
became of the paper's claims. Cut-down data is labelled in the row where a number of it stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bntricks.paper import Entry, ScaleName, Side, Study, load_reported
from bntricks.report.groups import OF_THE_METHOD, Group, best, by_stream, group, stream_title
from bntricks.report.tables import Cell, Table, number, without_empty_columns
from bntricks.report.verdicts import Row
from bntricks.runs.config import Config
from bntricks.runs.record import Record

RESULTS = (
    *("Stream", "Method", "ACC", "Paper ACC", "BWT", "Paper BWT", "Data", "Forgetting"),
    *("Seeds", "Forwards/step", "Images/s"),
)
VERDICTS = (
    *("#", "Verdict", "Claim", "Paper", "Ours", "95% interval", "p (Holm)", "Seeds"),
    *("Compared", "Metric", "Where"),
)
NO_MATTER = {"method", "hyper", "stream", "memory", "data", "device", "threads"} | OF_THE_METHOD
"""Knobs that do not take a run away from the paper's protocol, or have a place of their own."""


def results_table(
    records: Iterable[Record],
    study: Study | None = None,
    scale: ScaleName | None = None,
    title: str = "Results",
) -> Table:
    """A row for each group of runs. With a study, the paper's value is that of the same variant."""
    groups = group(records)
    entries = [paper_entry(one, study, scale) for one in groups]
    marks = best(groups, "acc")
    rows = tuple(
        _result(one, entry, mark) for one, entry, mark in zip(groups, entries, marks, strict=True)
    )
    notes = tuple(_notes(groups, entries))
    return without_empty_columns(Table(title, RESULTS, rows, notes))


def verdict_table(rows: Sequence[Row], records: Iterable[Record] = ()) -> Table:
    """A row for each claim. The records say whether ours are numbers of cut-down data."""
    ours = " ".join(filter(None, ("Ours", cut_down_label(records))))
    columns = tuple(ours if column == "Ours" else column for column in VERDICTS)
    cells = tuple(
        (
            number(index, 0),
            Cell(row.verdict, bold=row.verdict in ("holds", "does not hold")),
            Cell(row.claim),
            number(row.paper),
            number(row.ours),
            Cell("" if row.low is None else f"{row.low:.2f} to {row.high:.2f}"),
            number(row.p_holm, 3),
            number(row.seeds, 0),
            Cell(compared(row)),
            Cell(metric_title(row.metric)),
            Cell(row.where),
        )
        for index, row in enumerate(rows, start=1)
    )
    notes = (
        "Differences are in points, A minus B, over the seeds that both sides have; a claim holds "
        "if the 95% interval says so.",
        "p (Holm) is a permutation test's, adjusted for all claims of the study at once. With n "
        "seeds it cannot fall below 2/2ⁿ times the number of claims, so with few seeds a claim can "
        "hold by its interval beside a p of 1: take it as a hint.",
    )
    return without_empty_columns(Table("The paper's claims", columns, cells, notes))


def paper_entry(
    one: Group, study: Study | None = None, scale: ScaleName | None = None
) -> Entry | None:
    """The paper's result of the same method, stream and memory. In a study, the memory that counts
    is that of the paper's scale."""
    memory = one.knobs["memory"]
    if study is not None and scale is not None and one.stream in study.streams:
        for variant in study.variants:
            side = Side(method=one.method, stream=one.stream, variant=variant.label)
            wanted = study.variable(scale, side)
            if all(one.knobs[key] == value for key, value in wanted.items()):
                knobs = study.values("paper", one.stream, variant.label)
                memory = knobs.pop("memory", None)
                if knobs:
                    return None
                break
    return load_reported().find(one.method, one.stream, memory)


def cut_down_label(records: Iterable[Record]) -> str:
    """What to say beside our numbers: nothing, if all data was whole."""
    cut = {bool(record["data"].get("cut_down")) for record in records}
    return {(True,): "(cut-down data)", (False, True): "(partly cut-down data)"}.get(
        tuple(sorted(cut)), ""
    )


def compared(row: Row) -> str:
    """The sides of a claim, in few signs."""
    if row.b is None:
        return f"{row.a} > 0"
    if row.kind == "similar":
        return f"{row.a} ≈ {row.b} (±{row.margin:g})"
    return f"{row.a} − {row.b}" + (", slope" if row.kind == "trend" else "")


def metric_title(metric: str) -> str:
    match metric.split(":"):
        case ["acc" | "bwt"]:
            return metric.upper()
        case ["acc_after", task]:
            return f"ACC after task {task}"
        case ["accuracy", after, task]:
            return f"task {task} after task {after}"
    return metric.replace("_", " ").replace(".", ": ")


def _result(one: Group, entry: Entry | None, mark: bool) -> tuple[Cell, ...]:
    acc = number(one.mean("acc"), sd=one.sd("acc"))
    paper_acc = number(entry.acc.mean, sd=entry.acc.sd) if entry else Cell()
    paper_bwt = number(entry.bwt.mean, sd=entry.bwt.sd) if entry and entry.bwt else Cell()
    return (
        Cell(stream_title(one.stream)),
        Cell(one.label),
        replace(acc, bold=mark),
        paper_acc,
        number(one.mean("bwt"), sd=one.sd("bwt")),
        paper_bwt,
        Cell(_data(one)),
        number(one.mean("forgetting"), sd=one.sd("forgetting")),
        number(len(one.records), 0),
        number(one.mean("forwards_per_step")),
        number(one.mean("images_per_second"), 0),
    )


def _data(one: Group) -> str:
    data = one.records[0]["data"]
    if not one.cut_down:
        return "full"
    have, official = data["images"]["train"], data["official_images"]["train"]
    return f"cut-down ({have} of {official})"


def _notes(groups: Sequence[Group], entries: Sequence[Entry | None]) -> list[str]:
    notes = [
        "Mean ± standard deviation over seeds, in percent. Bold: the best ACC among methods of the "
        "same stream, data and protocol, joint training aside."
    ]
    if mixed := [name for name, some in by_stream(groups).items() if _mixed(some)]:
        notes.append(
            f"Several protocols on {', '.join(map(stream_title, mixed))}: labels say which; "
            "nothing is averaged across them, and rows of different protocols do not compare."
        )
    beside = [(one, entry) for one, entry in zip(groups, entries, strict=True) if entry]
    if apart := sorted({text for one, entry in beside for text in _deviations(one, entry)}):
        notes.append(f"Not the paper's protocol: {', '.join(apart)}.")
    if any(one.cut_down for one in groups):
        notes.append(
            "Cut-down: learned from so many of the official training images. Such numbers stand "
            "beside the paper's for orientation and are not comparable with them."
        )
    return notes


def _mixed(groups: Sequence[Group]) -> bool:
    return not all(one.comparable(other) for one in groups for other in groups)


def _deviations(one: Group, entry: Entry) -> list[str]:
    default = Config().model_dump(mode="json")
    found = [
        f"{key.replace('_', ' ')} {one.knobs[key]} (paper: {_plain(default[key])})"
        for key in default.keys() - NO_MATTER - {"seed"}
        if one.knobs[key] != default[key]
    ]
    if one.knobs["memory"] not in (None, entry.memory):
        found.append(f"memory {one.knobs['memory']} (paper: {entry.memory})")
    return found


def _plain(value: object) -> str:
    return "all" if value is None else str(value)
