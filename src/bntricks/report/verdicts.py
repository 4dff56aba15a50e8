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
from bntricks.paper import Claim, ScaleName, Side, Study, load_reported
from bntricks.report.groups import OF_THE_MEMORY, OF_THE_METHOD, Group
from bntricks.report.statistics import Estimate, contrast, equivalent, estimate, holm
from bntricks.runs.record import Record

Verdict = Literal["holds", "does not hold", "undecided", "not run"]


@dataclass(frozen=True, slots=True)
class Judgement:
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


def _judge(study: Study, scale: ScaleName, claim: Claim, groups: Sequence[Group]) -> Judgement:
    sides = [(weight, groups_of(study, scale, side, groups)) for weight, side in claim.terms()]
    _check_one_protocol(study, scale, [matching for _, matching in sides])
    terms = [(weight, matching[0] if matching else None) for weight, matching in sides]
    measured = [_values(terms, metric) for metric in _metrics(claim, terms[0][1])]
    tested = [estimate(contrast(values)) for values in measured if all(v for _, v in values)]
    # What must hold on every task is as strong as its weakest task.
    weakest = min(tested, key=_lowest, default=Estimate(None, None, None, None, 0))
    ps = [each.p for each in tested if each.p is not None]
    return Judgement(
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
        # A p-value against "no difference" is no evidence of similarity.
        p=max(ps) if ps and claim.kind != "similar" else None,
        p_holm=None,
        verdict=_weakest_verdict([_decide(claim, each) for each in tested]),
    )


def _metrics(claim: Claim, group: Group | None) -> list[str]:
    if claim.metric != "every_task":
        return [claim.metric]
    tasks = 0 if group is None else group.tasks
    return [f"every_task:{task}" for task in range(1, tasks + 1)]


def _values(
    terms: Sequence[tuple[float, Group | None]], metric: str
) -> list[tuple[float, dict[int, float]]]:
    """Each side's weight, and its numbers by seed."""
    return [
        (
            weight,
            {
                record.seed: number
                for record in (group.records if group else ())
                if (number := value(record, metric)) is not None
            },
        )
        for weight, group in terms
    ]


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


def _weakest_verdict(parts: Sequence[Verdict]) -> Verdict:
    """One part that fails is enough; all must hold."""
    order: tuple[Verdict, ...] = ("does not hold", "undecided", "holds")
    return next((verdict for verdict in order if verdict in parts), "not run")


def _check_one_protocol(study: Study, scale: ScaleName, sides: Sequence[Sequence[Group]]) -> None:
    """A side is one group, as two groups of a method differ in their protocol. Sides may differ in
    their methods and in what the study's variants change."""
    varied = {key for variant in study.variants for key in variant.values(scale)}
    for matching in sides:
        if len(matching) > 1:
            _refuse_differences(matching[0], matching[1], set())
    for a, b in combinations([matching[0] for matching in sides if matching], 2):
        _refuse_differences(a, b, {"method", "hyper"} | varied | _unused(a, b))


def _unused(a: Group, b: Group) -> set[str]:
    """Knobs that one of two methods does not have, and so has at their default."""
    if a.method == b.method:
        return set()
    memoryless = None in (a.knobs["memory"], b.knobs["memory"])
    return OF_THE_METHOD | (OF_THE_MEMORY if memoryless else set())


def _refuse_differences(a: Group, b: Group, ignored: set[str]) -> None:
    keys = [key for key in sorted(a.knobs.keys() - ignored) if a.knobs[key] != b.knobs[key]]
    differences = [f"{key} ({a.knobs[key]} and {b.knobs[key]})" for key in keys if key != "data"]
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
