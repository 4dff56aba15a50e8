"""Does what the paper claims hold in our runs? One row a claim, decided by the 95% interval of the
difference over seeds.

Runs of different protocols or data are never averaged or compared: meeting such is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, Literal

from bntricks.errors import UserError
from bntricks.paper import Claim, ScaleName, Side, Study, load_reported
from bntricks.report.statistics import Estimate, contrast, equivalent, estimate, holm
from bntricks.runs.config import Config
from bntricks.runs.record import Record

Verdict = Literal["holds", "does not hold", "undecided", "not run"]


@dataclass(frozen=True, slots=True)
class Row:
    """A claim and what became of it. Differences are A minus B, in points; for a trend, points of
    A's gain over B from one variant to the next."""

    claim: str
    where: str
    kind: str
    metric: str
    a: str
    b: str | None
    margin: float | None
    paper: float | None
    """The paper's difference, where its tables have the numbers."""
    ours: float | None
    low: float | None
    high: float | None
    seeds: int
    """How many seeds all sides have."""
    p: float | None
    p_holm: float | None
    """Adjusted for all claims of the study."""
    verdict: Verdict


def verdicts(study: Study, scale: ScaleName, records: Iterable[Record]) -> list[Row]:
    """A row for each claim of the study, from whatever of its runs at this scale is there."""
    records = list(records)
    rows = [_row(study, scale, claim, records) for claim in study.claims]
    adjusted = holm([row.p for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def records_of(
    study: Study, scale: ScaleName, side: Side, records: Iterable[Record]
) -> list[Record]:
    """The runs of one side: its method, its stream, and its values of whatever knobs the study's
    variants turn."""
    wanted = study.variable(scale, side)
    return [
        record
        for record in records
        if (record["method"], record["stream"]) == (side.method, side.stream)
        and wanted == {key: _config(record)[key] for key in wanted}
    ]


def value(record: Record, metric: str) -> float | None:
    """A number of a record, None if this run has no such number."""
    r = record["accuracy"]
    match metric.split(":"):
        case ["acc" | "bwt" | "forgetting" | "last_task"]:
            found = record[metric]
        case ["acc_after", after]:
            found = _at(record["acc_after_each_task"], int(after))
        case ["accuracy", after, task]:
            found = _at(_at(r, int(after)) or [], int(task))
        case ["every_task", task]:
            found = _at(r[-1], int(task))
        case ["previous"]:
            found = _mean(r[-1][:-1])
        case ["learned"]:
            found = _mean([row[task] for task, row in enumerate(r)])
        case _:
            section, _, name = metric.partition(".")
            found = record.get(section, {}).get(name)
    return None if found is None else float(found)


def paper_difference(study: Study, claim: Claim) -> float | None:
    """The same difference in the paper's tables, None where they do not have all of it."""
    total = 0.0
    for weight, side in claim.terms():
        knobs = study.values("paper", side.stream, side.variant)
        memory = knobs.pop("memory", None)
        entry = load_reported().find(side.method, side.stream, memory)
        number = {"acc": entry.acc, "bwt": entry.bwt}.get(claim.metric) if entry else None
        if knobs or number is None:
            return None
        total += weight * number.mean
    return total


def _row(study: Study, scale: ScaleName, claim: Claim, records: Sequence[Record]) -> Row:
    terms = [(weight, records_of(study, scale, side, records)) for weight, side in claim.terms()]
    _check_one_protocol(study, scale, [runs for _, runs in terms])
    measured = [_values(terms, metric) for metric in _metrics(claim, terms[0][1])]
    tested = [estimate(contrast(sides)) for sides in measured if all(v for _, v in sides)]
    # What must hold on every task is as strong as its weakest task.
    weakest = min(tested, key=_lowest, default=Estimate(None, None, None, None, 0))
    ps = [e.p for e in tested if e.p is not None]
    return Row(
        claim=claim.text,
        where=claim.where,
        kind=claim.kind,
        metric=claim.metric,
        a=str(claim.a),
        b=None if claim.b is None else str(claim.b),
        margin=claim.margin,
        paper=paper_difference(study, claim),
        ours=weakest.mean,
        low=weakest.low,
        high=weakest.high,
        seeds=weakest.n,
        # A p-value against "no difference" says nothing for likeness.
        p=max(ps) if ps and claim.kind != "similar" else None,
        p_holm=None,
        verdict=_together([_decide(claim, e) for e in tested]),
    )


def _metrics(claim: Claim, runs: Sequence[Record]) -> list[str]:
    if claim.metric != "every_task":
        return [claim.metric]
    tasks = len(runs[0]["accuracy"]) if runs else 0
    return [f"every_task:{task}" for task in range(1, tasks + 1)]


def _values(
    terms: Sequence[tuple[float, Sequence[Record]]], metric: str
) -> list[tuple[float, dict[int, float]]]:
    return [
        (weight, {r["seed"]: v for r in runs if (v := value(r, metric)) is not None})
        for weight, runs in terms
    ]


def _lowest(found: Estimate) -> float:
    return next((x for x in (found.low, found.mean) if x is not None), 0.0)


def _decide(claim: Claim, found: Estimate) -> Verdict:
    if found.low is None or found.high is None:
        return "undecided"
    if claim.margin is not None:
        inside = equivalent(found.low, found.high, claim.margin)
        return "undecided" if inside is None else "holds" if inside else "does not hold"
    if found.low > 0:
        return "holds"
    return "does not hold" if found.high < 0 else "undecided"


def _together(parts: Sequence[Verdict]) -> Verdict:
    """One part that fails is enough; all must hold."""
    order: tuple[Verdict, ...] = ("does not hold", "undecided", "holds")
    return next((verdict for verdict in order if verdict in parts), "not run")


def _check_one_protocol(study: Study, scale: ScaleName, sides: Sequence[Sequence[Record]]) -> None:
    turned = {key for variant in study.variants for key in variant.values(scale)}
    for runs in sides:
        for one, other in pairwise(runs):
            _same(one, other, {"seed"})
        by_seed: dict[int, Record] = {}
        for run in runs:
            if by_seed.setdefault(run["seed"], run)["accuracy"] != run["accuracy"]:
                raise UserError(
                    f"{_name(by_seed[run['seed']])} and {_name(run)} are the same run with other "
                    "results: remove one of them"
                )
    for one, other in combinations([runs[0] for runs in sides if runs], 2):
        _same(one, other, {"seed", "method", "hyper"} | turned | _unused(one, other))


def _unused(one: Record, other: Record) -> set[str]:
    """Knobs that one of two methods does not have, and so has at their default."""
    if one["method"] == other["method"]:
        return set()
    memoryless = any(_config(record)["memory"] is None for record in (one, other))
    return {"balance", "as_published"} | ({"memory", "memory_batch"} if memoryless else set())


def _same(one: Record, other: Record, apart_from: set[str]) -> None:
    first, second = _config(one), _config(other)
    differ = [
        f"{key} ({first[key]} and {second[key]})"
        for key in sorted(first.keys() - apart_from)
        if first[key] != second[key]
    ]
    if one["data"]["fingerprint"] != other["data"]["fingerprint"]:
        differ.append("the images they learned")
    if differ:
        raise UserError(
            f"mixed protocols: {_name(one)} and {_name(other)} differ in {', '.join(differ)}; "
            "keep the runs of each protocol in a folder of their own"
        )


def _config(record: Record) -> dict[str, Any]:
    """A run's knobs; one that is newer than the run was at its default."""
    return {**Config().model_dump(mode="json"), **record["config"]}


def _name(record: Record) -> str:
    where = f" ({record['path']})" if "path" in record else ""
    return f"{record['method']} on {record['stream']}, seed {record['seed']}{where}"


def _at(values: Sequence[Any], count: int) -> Any:
    return values[count - 1] if count <= len(values) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
