"""Which records are runs of which study at which scale, and what became of each claim there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bntricks.paper import SCALES, Claim, ScaleName, Study, load_reported, load_study
from bntricks.report.groups import RunGroup, group
from bntricks.report.verdicts import FEWEST_SEEDS, Judgement, verdicts
from bntricks.runs.config import Config
from bntricks.runs.record import Record

STUDIES = ("pilot", "ablation", "main", "control", "overlap", "statistics", "buffers", "long")
STUDIES += ("norms-online", "norms", "bias", "trackers")
STUDIES += ("exemplars", "exemplars-memory", "phi-share", "rehearsal-free", "precision")
"""Every study that claims something, in the order of the page."""
JUDGED = ("holds", "suggested", "undecided", "no difference", "doubtful", "does not hold")
CONFIRMED = {"suggested": "holds", "doubtful": "does not hold"}
"""What more seeds make of a verdict that the interval alone has decided."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The runs of a study at one scale, and what they say of its claims."""

    study: Study
    scale: ScaleName
    groups: tuple[RunGroup, ...]
    judgements: tuple[Judgement, ...]

    @property
    def with_runs(self) -> tuple[Judgement, ...]:
        """The claims that have runs on all sides."""
        return tuple(each for each in self.judgements if each.ours is not None)

    @property
    def judged(self) -> tuple[Judgement, ...]:
        """The claims that have a verdict."""
        return tuple(filter(is_judged, self.with_runs))


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim, and what its runs say at every scale that has any, from the largest down."""

    study: Study
    claim: Claim
    judgements: tuple[tuple[ScaleName, Judgement], ...]

    @property
    def decisive(self) -> tuple[ScaleName, Judgement] | None:
        """The verdict that counts: that of the largest scale which has one, or of a smaller scale
        that confirms it."""
        judged = [each for each in self.judgements if is_judged(each[1])]
        if not judged:
            return None
        confirmed = CONFIRMED.get(judged[0][1].verdict)
        return next((each for each in judged if each[1].verdict == confirmed), judged[0])

    @property
    def verdict(self) -> str:
        if self.decisive is not None:
            return self.decisive[1].verdict
        return "too few seeds" if self.judgements else "not run"


def is_judged(judgement: Judgement) -> bool:
    return judgement.verdict in JUDGED and judgement.seeds >= FEWEST_SEEDS


def gather(records: Sequence[Record]) -> list[Evidence]:
    """Study by study; of each, scales with verdicts first, and larger ones before smaller."""
    evidence = [
        Evidence(study, scale, tuple(groups), tuple(verdicts(study, scale, groups)))
        for study in map(load_study, STUDIES)
        for scale in SCALES
        if scale != "smoke" and (groups := group(runs_of(study, scale, records)))
    ]
    return sorted(
        evidence,
        key=lambda each: (
            STUDIES.index(each.study.name),
            not each.judged,
            SCALES.index(each.scale),
        ),
    )


def runs_of(study: Study, scale: ScaleName, records: Iterable[Record]) -> list[Record]:
    """The records that are runs of this study at this scale. What is not cut down on purpose is
    of the whole data."""
    return [
        record
        for record in records
        if record.stream in study.streams
        and (scale == "lite" or not record.data.cut_down)
        and any(
            record.method in study.methods_of(variant)
            and has_protocol(record, study.values(scale, record.stream, variant.label))
            for variant in study.variants
        )
    ]


def has_protocol(record: Record, values: dict[str, Any]) -> bool:
    """Whether a run has these options, and the paper's otherwise. What a method does not have,
    such as the memory of SGD, is None."""
    own = record.config.model_dump()
    wanted = {**Config().model_dump(), **values}
    if wanted["memory"] is None:
        wanted["memory"] = load_reported().memory.get(record.stream)
    return all(
        own[key] == wanted[key] or (key == "memory" and own[key] is None)
        for key in Config.options(changes="protocol") - {"memory_batch"}
    )


def findings(evidence: Sequence[Evidence]) -> list[Finding]:
    """Every claim of every study."""
    judgements: dict[Any, dict[ScaleName, Judgement]] = {}
    for each in evidence:
        for judgement in each.with_runs:
            judgements.setdefault(_key(each.study, judgement.claim), {})[each.scale] = judgement
    return [
        Finding(study, claim, tuple((scale, own[scale]) for scale in SCALES if scale in own))
        for study in map(load_study, STUDIES)
        for claim in study.claims
        for own in [judgements.get(_key(study, claim), {})]
    ]


def distinct(findings: Sequence[Finding]) -> list[Finding]:
    """What two studies claim, once, as the first one words it."""
    by_key: dict[Any, Finding] = {}
    for finding in findings:
        by_key.setdefault(_key(finding.study, finding.claim), finding)
    return list(by_key.values())


def _key(study: Study, claim: Claim) -> tuple[Any, ...]:
    """What is compared, however it is worded and whatever a study calls its variants."""
    terms = [
        (
            weight,
            side.method,
            side.stream,
            *sorted(study.variant(side.variant).values("paper").items()),
        )
        for weight, side in claim.terms()
    ]
    return claim.kind, claim.metric, claim.margin, *terms
