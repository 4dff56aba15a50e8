"""The lists of a report: the results of every group of runs, their costs, and the verdicts on
claims. Rows from cut-down data are marked."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bntricks.paper import Claim, PaperResult, ScaleName, Study
from bntricks.report.groups import RunGroup, best, by_stream, columns, side_title, stream_title
from bntricks.report.protocol import changed_protocol, paper_numbers, protocol_notes, scale_name
from bntricks.report.statistics import mean, sd
from bntricks.report.tables.table import SKIPPED, Cell, Table, interval, number, only, table_of
from bntricks.report.verdicts import (
    CHANGED,
    DIGITS,
    FEWEST_SEEDS,
    P_DIGITS,
    SEEDS_TO_CONFIRM,
    Judgement,
)
from bntricks.runs.metrics import SHOWN, column_title, metric_title

METRICS = ("acc", "bwt")
"""Of the paper's tables."""
SHARE = "New share of φ"
MIXED = "†"
"""Beside seeds whose pairs differ in what computed them."""
COST = ("Stream", "Method", "Data", "Seeds", "Forwards/step", SHARE, "Images/s")
SPEED = "Forwards/step counts tracking passes too. Images/s depend on the machine."
READ_OFF = "A row that was read off a run of another method has that run's cost."
SHARES = (
    f"{SHARE}: how much of the running statistics belongs to the newest task when the fifth ends, "
    "by the method's recipe; 0.20 would be balanced."
)


def results_table(
    groups: Sequence[RunGroup],
    study: Study | None = None,
    scale: ScaleName | None = None,
    metrics: Sequence[str] = SHOWN,
) -> Table:
    """Tabulate groups, with the paper's numbers beside those of its own protocol. A note says how
    runs of a study differ from it."""
    notes = [*_notes(groups), *changed_protocol(groups, study, scale)]
    accs = [(group, None if group.joint else group.mean("acc")) for group in groups]
    marks, options = best(accs), option_cells(groups)
    rows = [
        _result(group, paper_numbers(group), options[index], marks[index], metrics)
        for index, group in enumerate(groups)
    ]
    return table_of("Results", rows, notes)


def of_one_stream(groups: Sequence[RunGroup], metrics: Sequence[str]) -> Table:
    """Tabulate groups of one stream, beside a whole table that has the notes."""
    whole = results_table(groups, metrics=metrics)
    kept = [index for index, name in enumerate(whole.columns) if name != "Stream"]
    return replace(only(whole, kept), notes=())


def option_cells(groups: Sequence[RunGroup]) -> list[dict[str, Cell]]:
    """Write what distinguishes groups besides stream and method, by column: the scale, options and
    data."""
    texts = {"Scale": [scale_name(group) for group in groups]}
    texts = {name: own for name, own in texts.items() if len(set(own)) > 1} | columns(groups)
    return [
        {name: value_cell(own[index]) for name, own in texts.items()}
        for index in range(len(groups))
    ]


def value_cell(text: str) -> Cell:
    """Make a cell of an option's value, which is sorted as a number if it is one."""
    try:
        return Cell(text, float(text))
    except ValueError:
        return Cell(text)


def measured(values: Iterable[float | None], digits: int = 2) -> Cell:
    """Write mean ± standard deviation of the values there are; a dash if there are none."""
    known = [value for value in values if value is not None]
    return number(mean(known), digits, sd=sd(known)) if known else SKIPPED


def reported(entry: PaperResult | None, metric: str) -> Cell | None:
    """Write the paper's mean ± standard deviation, if it has them."""
    result = entry.number(metric) if entry else None
    return number(result.mean, sd=result.sd) if result else None


def cost_table(groups: Sequence[RunGroup], results: Table | None = None) -> Table:
    """Tabulate each group's data and the cost of its steps, from the table of results if there is
    one."""
    results = results or results_table(groups)
    options = {name for own in option_cells(groups) for name in own}
    kept = [i for i, name in enumerate(results.columns) if name in COST or name in options]
    read_off = any(record.trained_as for group in groups for record in group.records)
    notes = (SPEED, *[READ_OFF] * read_off, *[SHARES] * (SHARE in results.names))
    return replace(only(results, kept), title="Data and cost", notes=notes)


def verdict_table(
    judgements: Sequence[Judgement], remark: str = "", title: str = "The paper's claims"
) -> Table:
    """Tabulate claims. The remark, such as "(cut-down data)", is added to our numbers."""
    rows = [
        {
            "#": number(index, 0),
            "Verdict": Cell(_verdict(judged), bold=judged.verdict in ("holds", "does not hold")),
            "Claim": Cell(judged.claim.text),
            "Paper": number(judged.paper.mean),
            "Paper's interval": interval(judged.paper.low, judged.paper.high),
            f"Ours {remark}".rstrip(): number(judged.ours),
            "95% interval": interval(judged.low, judged.high, DIGITS),
            "p (Holm)": p_value(judged.p_holm),
            "Seeds": _seeds(judged),
            "Decided by": Cell(judged.rule),
            "Compared": Cell(compared(judged.claim)),
            "Metric": Cell(metric_title(judged.metric)),
            "Where": Cell(judged.claim.where),
        }
        for index, judged in enumerate(judgements, start=1)
    ]
    return table_of(title, rows, _verdict_notes(judgements))


def printed_verdicts(table: Table) -> Table:
    """Reduce the columns of claims to those that fit a printed page."""
    kept = [
        index
        for index, name in enumerate(table.columns)
        if name in ("#", "Verdict", "Claim", "Paper", "95% interval", "p (Holm)")
        or name.startswith("Ours")
    ]
    narrow = only(table, kept)
    remarks = [name.removeprefix("Ours") for name in narrow.columns if name.startswith("Ours ")]
    columns = tuple("Ours" if name.startswith("Ours ") else name for name in narrow.columns)
    return replace(narrow, title="".join([narrow.title, *remarks]), columns=columns)


def _seeds(judged: Judgement) -> Cell:
    cell = number(judged.seeds, 0)
    return replace(cell, text=f"{cell.text} {MIXED}") if judged.mixed_numerics else cell


def _verdict(judged: Judgement) -> str:
    return f"{judged.verdict} ({judged.reason})" if judged.reason else judged.verdict


def p_value(p: float | None) -> Cell:
    """Write a p-value; one that would print as 0 is less than the last digit."""
    least = 10**-P_DIGITS
    if p is not None and p < least / 2:
        return Cell(f"< {least:.{P_DIGITS}f}", p)
    return number(p, P_DIGITS)


def _verdict_notes(judgements: Sequence[Judgement]) -> list[str]:
    reasons = {judged.reason for judged in judgements if judged.reason}
    notes = {
        "Differences are in points, A minus B, over the seeds that both sides have. Interval and p "
        "are of one test, Student's of paired differences: the interval leaves out 0 (or, for "
        "likeness, lies on one side of the margin) where its p is below 0.05.": True,
        "p (Holm) is that p after Holm's adjustment for all claims of this table that have a "
        f"verdict. Holds, or does not hold: by the interval and by p (Holm) of at most 0.05, over "
        f"at least {SEEDS_TO_CONFIRM} seeds. Suggested, or doubtful: by the interval alone. "
        "Undecided: the interval allows either answer.": True,
        "The paper's interval is Welch's, from its means and standard deviations over 10 runs.": (
            any(judged.paper.low is not None for judged in judgements)
        ),
        f"{MIXED} Some pairs were computed on different machines or by different versions of the "
        "code, so that their sides also differ by rounding, which training amplifies.": (
            any(judged.mixed_numerics for judged in judgements)
        ),
        "A claim about every task shows the task that decides it; its p allows for all tasks.": (
            any(judged.claim.metric == "every_task" for judged in judgements)
        ),
        f"Not judged: a verdict needs at least {FEWEST_SEEDS} seeds that all sides have, and runs "
        "of more than the smoke scale, which only shows that everything works.": bool(
            reasons - {CHANGED}
        ),
        "Changed protocol: the runs have options that the study does not have at this scale, so "
        "its claims are not about them.": CHANGED in reasons,
    }
    return [note for note, applies in notes.items() if applies]


def compared(claim: Claim) -> str:
    """Write the sides of a claim as a short formula."""
    a, b = side_title(claim.a), "0" if claim.b is None else side_title(claim.b)
    if claim.kind == "similar":
        return f"{a} ≈ {b} (±{claim.margin:g})"
    if claim.kind == "less":
        return f"{a} < {b}{f' + {claim.margin:g}' if claim.margin else ''}"
    if claim.b is None:
        return f"{a} > 0"
    sides = f"{a} − {b}"
    if claim.kind != "trend":
        return sides
    first, last = (variant or "plain" for variant in (claim.along[0], claim.along[-1]))
    return f"{sides}, slope from {first} to {last}"


def _result(
    group: RunGroup,
    entry: PaperResult | None,
    options: dict[str, Cell],
    mark: bool,
    metrics: Sequence[str],
) -> dict[str, Cell]:
    numbers: dict[str, Cell] = {}
    for name in metrics:
        cell = measured(group.values(name))
        numbers[column_title(name)] = replace(cell, bold=mark and name == "acc")
        if name in METRICS:
            numbers[f"Paper {column_title(name)}"] = reported(entry, name) or Cell()
    images, official = group.records[0].data.images, group.records[0].data.official_images
    data = "full"
    if group.cut_down and official is not None:
        data = f"cut-down ({images['train']} of {official['train']})"
    return {
        "Stream": Cell(stream_title(group.stream)),
        "Method": Cell(group.title),
        **options,
        **numbers,
        "Data": Cell(data),
        "Seeds": number(len(group.records), 0),
        "Forwards/step": number(group.mean("forwards_per_step")),
        SHARE: number(group.records[0].new_share_of_phi),
        "Images/s": number(group.mean("images_per_second"), 0),
    }


def _notes(groups: Sequence[RunGroup]) -> list[str]:
    notes = [
        "Mean ± standard deviation over seeds, in percent. Bold: the best ACC among methods of the "
        "same stream, data and protocol, joint training aside."
    ]
    mixed = [
        stream_title(stream)
        for stream, own in by_stream(groups).items()
        if max(len({g.protocol for g in own}), len({g.store for g in own} - {None})) > 1
    ]
    if mixed:
        notes.append(
            f"Several protocols on {', '.join(mixed)}: columns say where rows differ; nothing is "
            "averaged across them, and rows of different protocols are not comparable."
        )
    notes += protocol_notes(groups)
    if any(group.cut_down for group in groups):
        notes.append(
            "Cut-down: trained on only that many of the official training images, and not "
            "comparable with numbers of the whole data."
        )
    return notes
