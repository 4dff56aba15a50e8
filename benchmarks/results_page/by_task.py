"""Which tasks a difference comes from: the old ones, as they were learned and in the end, or the
newest."""

from __future__ import annotations

from collections.abc import Sequence

from bntricks.paper import Claim
from bntricks.report.protocol import groups_of
from bntricks.report.records import by_seed
from bntricks.report.statistics import contrast, mean
from results_page.evidence import Evidence, Finding

KINDS, METRICS = ("greater", "similar"), ("acc", "bwt")


def by_task(finding: Finding, evidence: Sequence[Evidence]) -> str:
    """A sentence about a comparison of ACC or BWT; empty for other claims, and without a verdict.
    BWT is what old tasks have in the end less what they had when they were learned."""
    claim = finding.claim
    if claim.kind not in KINDS or claim.metric not in METRICS or finding.decisive is None:
        return ""
    scale, _ = finding.decisive
    own = next(each for each in evidence if (each.study, each.scale) == (finding.study, scale))
    kept, bwt, newest = (_difference(own, claim, each) for each in ("previous", "bwt", "last_task"))
    return (
        f"(Old tasks: {kept - bwt:+.1f} when they were learned, {kept:+.1f} in the end; the newest "
        f"task: {newest:+.1f}.)"
    )


def _difference(evidence: Evidence, claim: Claim, metric: str) -> float:
    """The mean over the seeds that both sides have."""
    sides = [
        (weight, groups_of(evidence.study, evidence.scale, side, evidence.groups)[0].records)
        for weight, side in claim.terms()
    ]
    difference = mean(contrast([(weight, by_seed(own, metric)) for weight, own in sides]))
    assert difference is not None
    return difference
