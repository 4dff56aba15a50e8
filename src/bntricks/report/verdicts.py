"""Does what the paper claims hold in our runs? One judgement per claim, decided by the 95% interval
of the difference over seeds.

Runs of different protocols or data are never averaged or compared: such a mixture is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

from bntricks.errors import UserError
from bntricks.paper import Claim, Entry, ScaleName, Side, Study, load_reported
from bntricks.report.groups import Group
from bntricks.report.statistics import Estimate, contrast, equivalent, estimate, holm
from bntricks.runs.record import Record

Verdict = Literal["holds", "does not hold", "undecided", "not run"]
WEAKEST_FIRST: tuple[Verdict, ...] = ("does not hold", "undecided", "holds", "not run")


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim and what became of it. Differences are A minus B, in points; for a trend, points of
    A's gain over B from one variant to the next."""

    claim: Claim
    paper: float | None
    """The paper's difference, where its tables have the numbers."""
    ours: float | None
    low: float | None
    high: float | None
    seeds: int
    """How many seeds all sides have."""
    verdict: Verdict
    p: float | None
    p_holm: float | None = None
    """Adjusted for all claims of the study."""


def verdicts(study: Study, scale: ScaleName, groups: Sequence[Group]) -> list[Judgement]:
    """A judgement of each claim of the study, from those of its runs at this scale that exist."""
    judgements = [_judge(study, scale, claim, groups) for claim in study.claims]
    adjusted = holm([judgement.p for judgement in judgements])
    return [replace(each, p_holm=p) for each, p in zip(judgements, adjusted, strict=True)]


def groups_of(study: Study, scale: ScaleName, side: Side, groups: Sequence[Group]) -> list[Group]:
    """The runs of one side: its method, its stream, and its values of the knobs that the study's
    variants turn."""
    wanted = study.variable(scale, side)
    return [
        group
        for group in groups
        if (group.method, group.stream) == (side.method, side.stream)
        and all(group.knobs[key] == value for key, value in wanted.items())
    ]


def value(record: Record, metric: str) -> float | None:
    """A number of a record, None if this run does not have it: any of `record.METRICS`, or one of
    the further names that `paper.claims.Metric` lists."""
    r = record.accuracy
    number: Any
    match metric.split(":"):
        case ["acc_after", after]:
            number = _at(record.metrics["acc_after_each_task"], int(after))
        case ["accuracy", after, task]:
            number = _at(_at(r, int(after)) or (), int(task))
        case ["every_task", task]:
            number = _at(r[-1], int(task))
        case ["previous"]:
            number = _mean(r[-1][:-1])
        case ["learned"]:
            number = _mean([row[task] for task, row in enumerate(r)])
        case [name] if name in record.metrics:
            number = record.metrics[name]
        case _:
            part, _, name = metric.partition(".")
            number = getattr(getattr(record, part, None), name, None)
    if isinstance(number, list | tuple):
        raise UserError(f"{metric} is a list: a claim needs a metric that is one number")
    return None if number is None else float(number)


def by_seed(records: Sequence[Record], metric: str) -> dict[int, float]:
    """This number of every run that has it."""
    numbers = {record.seed: value(record, metric) for record in records}
    return {seed: number for seed, number in numbers.items() if number is not None}


def paper_entry(study: Study, side: Side) -> Entry | None:
    """The paper's result of one side, None if its tables do not have it."""
    knobs = study.values("paper", side.stream, side.variant)
    memory = knobs.pop("memory", None)
    return None if knobs else load_reported().find(side.method, side.stream, memory)


def paper_difference(study: Study, claim: Claim) -> float | None:
    """The same difference in the paper's tables, None where they do not have all of it."""
    total = 0.0
    for weight, side in claim.terms():
        entry = paper_entry(study, side)
        number = {"acc": entry.acc, "bwt": entry.bwt}.get(claim.metric) if entry else None
        if number is None:
            return None
        total += weight * number.mean
    return total


def _judge(study: Study, scale: ScaleName, claim: Claim, groups: Sequence[Group]) -> Judgement:
    sides = [(weight, groups_of(study, scale, side, groups)) for weight, side in claim.terms()]
    _check_one_protocol(study, scale, [matching for _, matching in sides])
    runs = [(weight, matching[0].records if matching else ()) for weight, matching in sides]
    metrics = [claim.metric]
    if claim.metric == "every_task":
        tasks = max((len(record.accuracy) for _, own in runs for record in own), default=0)
        metrics = [f"every_task:{task}" for task in range(1, tasks + 1)]
    measured = [[(weight, by_seed(own, metric)) for weight, own in runs] for metric in metrics]
    tested = [estimate(contrast(values)) for values in measured if all(v for _, v in values)]
    # What must hold on every task is as strong as its weakest task.
    weakest = min(tested, key=_lowest, default=Estimate())
    ps = [each.p for each in tested if each.p is not None]
    parts = [_decide(claim, each) for each in tested]
    return Judgement(
        claim=claim,
        paper=paper_difference(study, claim),
        ours=weakest.mean,
        low=weakest.low,
        high=weakest.high,
        seeds=weakest.n,
        verdict=min(parts, key=WEAKEST_FIRST.index, default="not run"),
        # A p-value against "no difference" is no evidence of similarity.
        p=max(ps) if ps and claim.kind != "similar" else None,
    )


def _lowest(difference: Estimate) -> float:
    return next((x for x in (difference.low, difference.mean) if x is not None), 0.0)


def _decide(claim: Claim, difference: Estimate) -> Verdict:
    if difference.low is None or difference.high is None:
        return "undecided"
    if claim.margin is not None:
        inside = equivalent(difference.low, difference.high, claim.margin)
        return "undecided" if inside is None else "holds" if inside else "does not hold"
    if difference.low > 0:
        return "holds"
    return "does not hold" if difference.high < 0 else "undecided"


def _check_one_protocol(study: Study, scale: ScaleName, sides: Sequence[Sequence[Group]]) -> None:
    """A side is one group, as two groups of a method differ in their protocol. Sides may differ in
    their methods and in what the study's variants change."""
    varied = {"hyper"} | {key for variant in study.variants for key in variant.values(scale)}
    for matching in sides:
        if len(matching) > 1:
            _refuse(matching[0], matching[1], matching[0].differences(matching[1]))
    for a, b in combinations([matching[0] for matching in sides if matching], 2):
        _refuse(a, b, a.differences(b) - varied)


def _refuse(a: Group, b: Group, keys: set[str]) -> None:
    """Two groups that differ in these knobs, if there are any."""
    differences = [f"{key} ({a.knobs[key]} and {b.knobs[key]})" for key in sorted(keys - {"data"})]
    if "data" in keys:
        differences.append("the images they learned")
    if differences:
        raise UserError(
            f"mixed protocols: {_first_run(a)} and {_first_run(b)} differ in "
            f"{', '.join(differences)}; keep the runs of each protocol in a folder of their own"
        )


def _first_run(group: Group) -> str:
    record = group.records[0]
    where = "" if record.path is None else f" ({record.path})"
    return f"{record.method} on {record.stream}, seed {record.seed}{where}"


def _at(values: Sequence[Any], count: int) -> Any:
    return values[count - 1] if count <= len(values) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
