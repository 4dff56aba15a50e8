"""How findings are worded: figures with their intervals, the scale that decides before others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bntricks.paper import ScaleName
from bntricks.report.overview import counted
from bntricks.report.verdicts import Judgement
from bntricks.runs.record.metrics import metric_title
from results_page.evidence import Finding, is_judged

TOO_FEW = "too few for a verdict"
OUTCOMES = ("holds", "suggested", "undecided", "no difference", "doubtful", "does not hold")
"""Verdicts, from yes to no."""
RIVALS = (
    *("ahead of", "seems ahead of", "undecided against", "no different from"),
    *("seems behind", "behind"),
)
"""What they are called for two rivals: only a confirmed difference puts one ahead."""


def figures(together: Sequence[Finding]) -> str:
    """The numbers of findings that share a verdict: of the scale that decides, then of others."""
    return " ".join(
        _at_scale(scale, own, decides=index == 0)
        for index, (scale, own) in enumerate(by_scale(together))
    )


def by_scale(together: Sequence[Finding]) -> list[tuple[ScaleName, list[Judgement]]]:
    """The judgements of each scale: scales with verdicts first, larger ones before smaller."""
    scales: dict[ScaleName, list[Judgement]] = {}
    for finding in together:
        for scale, judgement in finding.judgements:
            scales.setdefault(scale, []).append(judgement)
    return sorted(scales.items(), key=lambda item: not any(map(is_judged, item[1])))


def figure(judgement: Judgement, *, alone: bool = False) -> str:
    """A difference with its interval, and, unless it stands alone, what to compare it with."""
    brackets = [interval(judgement)] if is_judged(judgement) else []
    if judgement.claim.margin is not None and not alone:
        alike = "alike: within ±" if judgement.claim.kind == "similar" else "less than "
        brackets.append(f"{alike}{judgement.claim.margin:g}")
    if judgement.paper is not None and not alone:
        brackets.append(f"paper {judgement.paper:+.2f}")
    return f"{judgement.ours:+.2f}" + (f" ({'; '.join(brackets)})" if brackets else "")


def interval(judgement: Judgement) -> str:
    return f"{judgement.low:.2f} to {judgement.high:.2f}"


def sentence(text: str) -> str:
    """The text with a capital letter in front."""
    return text[:1].upper() + text[1:]


def anchor(title: str) -> str:
    """What a link to the section of this title says."""
    return re.sub(r"[^\w\s-]", "", title.lower()).replace(" ", "-")


def seeds_of(judgements: Sequence[Judgement]) -> str:
    counts = sorted({judgement.seeds for judgement in judgements})
    return " or ".join(counted(count, "seed") for count in counts)


def _at_scale(scale: ScaleName, judgements: Sequence[Judgement], *, decides: bool) -> str:
    """One scale's numbers; unless its verdict is already said, with the verdict."""
    numbers = ", ".join(
        f"{metric_title(each.claim.metric)} {figure(each, alone=not decides)}"
        for each in judgements
    )
    judged = all(map(is_judged, judgements))
    if decides and judged:
        return f"{numbers}; {seeds_of(judgements)}, `{scale}`."
    words = [each.verdict if is_judged(each) else TOO_FEW for each in judgements]
    verdict = " and ".join(dict.fromkeys(words))
    return f"At `{scale}`: {numbers}; {seeds_of(judgements)}, {verdict}."
