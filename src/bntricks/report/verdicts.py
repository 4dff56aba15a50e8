"""Verdicts on the paper's claims from our runs. The 95% interval of a difference over seeds gives
the direction, and the same test's p-value, adjusted for all claims of the study, says whether that
is confirmed or only suggested. Both count as printed.

Runs of different protocols or data are never averaged or compared: such a mixture is an error.
Fewer than three seeds, and runs of the smoke scale, are shown but not judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bntricks.intervals import sign
from bntricks.paper import Claim, PaperResult, ScaleName, Side, Study, load_reported
from bntricks.report.groups import RunGroup
from bntricks.report.protocol import changes, check_one_protocol, groups_of, is_smoke
from bntricks.report.records import by_seed
from bntricks.report.statistics import Estimate, contrast, equivalent, estimate, holm, welch
from bntricks.runs.record import Record

Verdict = Literal[
    "holds",
    "suggested",
    "undecided",
    "no difference",
    "doubtful",
    "does not hold",
    "not judged",
    "not run",
]
Direction = Literal["for", "open", "against"]
"""What an interval says of a claim."""
WEAKEST_FIRST: tuple[Direction, ...] = ("against", "open", "for")
SUGGESTED: dict[Direction, Verdict] = {
    "for": "suggested",
    "open": "undecided",
    "against": "doubtful",
}
BY_SIGN: dict[int, Direction] = {1: "for", 0: "open", -1: "against"}
CONFIRMED: dict[Direction, Verdict] = {"for": "holds", "against": "does not hold"}
FEWEST_SEEDS = 3
"""Two seeds can agree by chance to any number of digits."""
SEEDS_TO_CONFIRM = 6
"""With fewer, normal differences have to be taken on trust: a test without that assumption, by
flipping signs, cannot get below 2/2⁵, which is more than 5%."""
LEVEL = 0.05
PAPER_RUNS = 10
"""Over which the paper's means and standard deviations are taken."""
DIGITS, P_DIGITS = 2, 3
"""Of an interval and of a p-value as printed. No verdict rests on digits that nobody sees."""


CHANGED = "changed protocol"
"""Why runs with other options than the study's are not judged."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim and its verdict. Differences are A minus B, in points; for a trend, points of A's
    gain over B from one variant to the next."""

    claim: Claim
    paper: Estimate
    """The paper's difference, where its tables have the numbers."""
    ours: float | None
    low: float | None
    high: float | None
    seeds: int
    """How many seeds all sides have."""
    verdict: Verdict
    p: float | None
    """Of the test that the interval belongs to; None where there is no verdict."""
    metric: str
    """What the interval is of: the claim's metric, or, where a claim is about every task, the task
    that decides, such as `every_task:3`."""
    reason: str = ""
    """Why there is no verdict although there are runs."""
    p_holm: float | None = None
    """Adjusted for all claims of the study that have a verdict."""
    rule: str = ""
    """What decided: the interval alone, or also the adjusted test; empty without a verdict."""
    mixed_numerics: bool = False
    """Some pair was computed on different machines or by different code, so its sides differ by
    more than the claim is about: by rounding, which training amplifies."""


def verdicts(study: Study, scale: ScaleName, groups: Sequence[RunGroup]) -> list[Judgement]:
    """Judge each claim of the study by its existing runs at this scale."""
    judgements = [_judge(study, scale, claim, groups) for claim in study.claims]
    adjusted = holm([judgement.p for judgement in judgements])
    return [_concluded(each, p) for each, p in zip(judgements, adjusted, strict=True)]


def _concluded(judgement: Judgement, p_holm: float | None) -> Judgement:
    """Confirm what the interval suggests if the adjusted test agrees and there are enough seeds."""
    if p_holm is None:
        return judgement
    direction = next(d for d, verdict in SUGGESTED.items() if verdict == judgement.verdict)
    judgement = replace(judgement, p_holm=p_holm)
    if _is_nothing(judgement):
        return replace(judgement, verdict="no difference", rule="interval: nothing but 0")
    if direction not in CONFIRMED:
        return replace(judgement, rule="interval: either answer")
    if judgement.seeds < SEEDS_TO_CONFIRM:
        return replace(judgement, rule=f"interval; {judgement.seeds} seeds cannot confirm it")
    if round(p_holm, P_DIGITS) > LEVEL:
        return replace(judgement, rule="interval; not after Holm's adjustment")
    return replace(judgement, verdict=CONFIRMED[direction], rule="interval and test")


def _is_nothing(judgement: Judgement) -> bool:
    """Whether all seeds agree on a difference of 0, as printed."""
    ends = (judgement.low, judgement.high)
    nothing = all(end is not None and round(end, DIGITS) == 0 for end in ends)
    return nothing and judgement.claim.margin is None


def paper_entry(study: Study, side: Side) -> PaperResult | None:
    """Find the paper's result of one side; None if its tables do not have it."""
    if "paper" not in study.scale:
        return None
    knobs = study.values("paper", side.stream, side.variant)
    memory = knobs.pop("memory", None)
    return None if knobs else load_reported().find(side.method, side.stream, memory)


def paper_difference(study: Study, claim: Claim) -> Estimate:
    """Compute the same difference from the paper's tables, with Welch's interval, as the paper does
    not pair its runs; empty if the tables lack a part of it."""
    terms = []
    for weight, side in claim.terms():
        entry = paper_entry(study, side)
        number = entry.number(claim.metric) if entry else None
        if number is None:
            return Estimate()
        terms.append((weight, number.mean, number.sd))
    low, high = welch(terms, PAPER_RUNS)
    return Estimate(sum(weight * mean for weight, mean, _ in terms), low, high)


def _judge(study: Study, scale: ScaleName, claim: Claim, groups: Sequence[RunGroup]) -> Judgement:
    sides = [
        (weight, side, groups_of(study, scale, side, groups)) for weight, side in claim.terms()
    ]
    check_one_protocol(study, scale, [matching for _, _, matching in sides])
    own = _computed_alike([_tested_by(claim, matching) for _, _, matching in sides])
    runs = [(weight, records) for (weight, _, _), records in zip(sides, own, strict=True)]
    measured = {
        metric: [(weight, by_seed(own, metric)) for weight, own in runs]
        for metric in _metrics(claim, [record for _, own in runs for record in own])
    }
    tested = {
        metric: estimate(contrast(values), claim.margin or 0.0, one_sided=claim.kind == "less")
        for metric, values in measured.items()
        if all(numbers for _, numbers in values)
    }
    metric, shown = min(
        tested.items(),
        key=lambda item: (WEAKEST_FIRST.index(_direction(claim, item[1])), _lowest(item[1])),
        default=(claim.metric, Estimate()),
    )
    compared = [(side, group) for _, side, matching in sides for group in matching]
    smoke = scale == "smoke" or any(is_smoke(study, scale, *each) for each in compared)
    changed = any(changes(study, scale, *each) for each in compared)
    reason = _why_not_judged(smoke, changed, shown.n) if tested else ""
    direction = _direction(claim, shown)
    verdict = SUGGESTED[direction] if tested else "not run"
    return Judgement(
        claim=claim,
        paper=paper_difference(study, claim),
        ours=shown.mean,
        low=shown.low,
        high=shown.high,
        seeds=shown.n,
        verdict="not judged" if reason else verdict,
        p=None if reason else _p(direction, shown, list(tested.values())),
        metric=metric,
        reason=reason,
        mixed_numerics=_mixed_numerics(own),
    )


def _mixed_numerics(sides: Sequence[Sequence[Record]]) -> bool:
    seeds: dict[int, list[Record]] = {}
    for record in (record for side in sides for record in side):
        seeds.setdefault(record.seed, []).append(record)
    pairs = [runs for runs in seeds.values() if len(runs) == len(sides)]
    return any(not runs[0].computed_alike(other) for runs in pairs for other in runs[1:])


def _computed_alike(sides: Sequence[Sequence[Record]]) -> list[list[Record]]:
    """Return the runs of each side. Of runs that were trained again with different bits, take the
    first training for which all sides of the seed have one that was computed alike."""
    chosen = [{record.seed: record for record in side} for side in sides]
    for seed in set.intersection(*(set(side) for side in chosen)):
        first, *others = ((side[seed], *side[seed].trained_again) for side in chosen)
        for training in first:
            alike = [[t for t in other if training.computed_alike(t)] for other in others]
            if all(alike):
                for side, record in zip(chosen, (training, *(t[0] for t in alike)), strict=True):
                    side[seed] = record
                break
    return [list(side.values()) for side in chosen]


def _tested_by(claim: Claim, matching: Sequence[RunGroup]) -> tuple[Record, ...]:
    """Return the runs of one side that finished after the claim was written down."""
    records = matching[0].records if matching else ()
    if (written := claim.after) is None:
        return records
    trainings = [(run, *run.trained_again) for run in records]
    later = [[t for t in each if t.finished and t.finished > written] for each in trainings]
    return tuple(each[0] for each in later if each)


def _metrics(claim: Claim, records: Sequence[Record]) -> list[str]:
    """List the metrics to test: one for each task, if the claim is about every task."""
    if claim.metric != "every_task":
        return [claim.metric]
    tasks = max((len(record.accuracy) for record in records), default=0)
    return [f"every_task:{task}" for task in range(1, tasks + 1)]


def _why_not_judged(smoke: bool, changed: bool, seeds: int) -> str:
    """Say why there is no verdict; empty if there may be one."""
    if smoke:
        return "smoke scale"
    if changed:
        return CHANGED
    if seeds >= FEWEST_SEEDS:
        return ""
    return {0: "no common seed", 1: "1 seed"}.get(seeds, f"{seeds} seeds")


def _p(direction: Direction, shown: Estimate, tested: Sequence[Estimate]) -> float | None:
    """Return the p-value of a claim. About every task, it is that of the least certain one; that
    one task fails is corrected by Bonferroni."""
    if direction == "against" and shown.p is not None:
        return min(1.0, shown.p * len(tested))
    return max((each.p for each in tested if each.p is not None), default=None)


def _lowest(difference: Estimate) -> float:
    return next((x for x in (difference.low, difference.mean) if x is not None), 0.0)


def _direction(claim: Claim, difference: Estimate) -> Direction:
    if difference.low is None or difference.high is None:
        return "open"
    low, high = round(difference.low, DIGITS), round(difference.high, DIGITS)
    if claim.kind == "less":
        margin = claim.margin or 0.0
        return "for" if high < margin else "against" if low > margin else "open"
    if claim.margin is not None:
        inside = equivalent(low, high, claim.margin)
        return "open" if inside is None else "for" if inside else "against"
    return BY_SIGN[sign(low, high, DIGITS)]
