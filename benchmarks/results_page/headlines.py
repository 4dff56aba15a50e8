"""The sentences to quote: what BN Tricks does to each baseline, whether that is the doubled
gradient, how it fares against other layers and corrected heads, and whether φ follows balanced
batches elsewhere too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bntricks.paper import ScaleName, Side, load_reported
from bntricks.report.protocol import groups_of
from bntricks.report.statistics import contrast, mean
from bntricks.report.verdicts import Judgement
from bntricks.runs.record.metrics import metric_title
from results_page.evidence import Evidence, Finding, is_judged
from results_page.layers import layers_headline
from results_page.other_phi import TITLE as OTHER_PHI
from results_page.wording import (
    OUTCOMES,
    RIVALS,
    TOO_FEW,
    anchor,
    by_scale,
    figure,
    figures,
    interval,
    seeds_of,
    sentence,
)

STREAM = "seq-cifar10"
PAIRS = {"ER-BNT": "ER", "DER++-BNT": "DER++", "iCaRL-BNT": "iCaRL"}
METRICS = ("acc", "bwt")
CONTROL, DOUBLED = "control", "lr 0.06"
"""The study and the variant of it with the learning rate doubled."""
ANSWERS = {
    "holds": "reproduces",
    "suggested": "seems to reproduce",
    "undecided": "undecided",
    "no difference": "no difference",
    "doubtful": "seems not to reproduce",
    "does not hold": "does not reproduce",
    "too few seeds": "no verdict yet",
    "not run": "not run yet",
}

QUESTION = (
    "**Is the gain of ER-BNT its doubled gradient? {answer}** ER-BNT adds two mean losses where ER "
    "takes one mean, so its steps can be twice as long; the control is ER at twice the learning "
    "rate, 0.06."
)


PHI = (
    "**What does a balanced φ gain by itself?** Where θ is trained in separate forwards, {apart}: "
    "ER-BNT trains as ER-Cur+Buf does, to the same θ, and differs from it in φ alone. "
    "{figures_apart} "
    "Where θ is trained in joint forwards, {joint}: that is ER with φ set to the moments of the "
    "memory after each task, against ER. {figures_joint} How ACC of the same θ moves with the "
    f"newest task's share of φ is [a figure](#{anchor(OTHER_PHI)})."
)
HEAD = "**Is it φ or the head?**"
TRACKERS = "**Does it matter which batches φ follows, where a method does not say?**"
REMEDIES = (
    *("ahead with", "seems ahead with", "undecided with", "no difference with"),
    *("seems behind with", "behind with"),
)
PAIRED = ("ahead:", "seems ahead:", "undecided:", "no difference:", "seems behind:", "behind:")
OVERLAP = (
    *("both repair the same with", "both seem to repair the same with", "undecided with"),
    *("no difference with", "it seems to gain even more with", "it gains even more with"),
)
"""What `OUTCOMES` are called for a remedy, for a pair, and for two remedies together."""
HARMFUL = OUTCOMES[-2:]


def headlines(evidence: Sequence[Evidence], findings: Sequence[Finding]) -> list[str]:
    return [
        *(_gain(method, baseline, findings) for method, baseline in PAIRS.items()),
        _doubled_gradient(evidence, findings),
        _balanced_phi(findings),
        layers_headline(findings),
        _phi_or_head(findings),
        _trackers(findings),
    ]


def _gain(method: str, baseline: str, findings: Sequence[Finding]) -> str:
    """What BN Tricks does to one baseline."""
    both = of_pair(method, baseline, findings)
    sentences = [
        _judged(scale, judgements, method, baseline)
        if any(map(is_judged, judgements))
        else _so_far(scale, judgements)
        for scale, judgements in by_scale(both)
    ]
    return " ".join([f"**{method} over {baseline}: {outcome(both)}.**", *sentences])


def outcome(both: Sequence[Finding]) -> str:
    """Whether a gain reproduces, in a word or two."""
    return _by_metric(both, ANSWERS)


def of_pair(method: str, baseline: str, findings: Sequence[Finding]) -> list[Finding]:
    """Whether BN Tricks gains this baseline ACC and BWT."""
    a, b = (Side(method=name.lower(), stream=STREAM) for name in (method, baseline))
    return _ahead(a, b, findings)


def _ahead(a: Side, b: Side, findings: Sequence[Finding]) -> list[Finding]:
    """Whether one side has more of each metric than the other."""
    own: dict[str, Finding] = {}
    for each in findings:
        if (each.claim.kind, each.claim.a, each.claim.b) == ("greater", a, b):
            own.setdefault(each.claim.metric, each)
    return [own[metric] for metric in METRICS]


def _judged(scale: ScaleName, judgements: Sequence[Judgement], method: str, baseline: str) -> str:
    parts = [
        f"{_points(each)}{than} (95% interval {interval(each)}; the paper: {each.paper:.2f})"
        for each, than in zip(judgements, (f" than {baseline}", ""), strict=True)
    ]
    points = " and ".join(parts)
    return f"At `{scale}` scale, over {seeds_of(judgements)}, {method} has {points}."


def _so_far(scale: ScaleName, judgements: Sequence[Judgement]) -> str:
    return (
        f"At `{scale}` scale so far, with {seeds_of(judgements)}, {TOO_FEW}: "
        f"{' and '.join(map(_points, judgements))}."
    )


def _points(judgement: Judgement) -> str:
    difference = judgement.ours or 0.0
    more = "more" if difference >= 0 else "less"
    return f"{abs(difference):.2f} points {more} {metric_title(judgement.claim.metric)}"


def _by_metric(findings: Sequence[Finding], words: dict[str, str]) -> str:
    """One word if both metrics agree, else one for each."""
    if len({each.verdict for each in findings}) == 1:
        return words[findings[0].verdict]
    return ", ".join(f"{words[f.verdict]} in {metric_title(f.claim.metric)}" for f in findings)


def _doubled_gradient(evidence: Sequence[Evidence], findings: Sequence[Finding]) -> str:
    """ER-BNT against ER at twice the rate, and how much of the gain that has by itself."""
    controls = (each for each in findings if each.study.name == CONTROL)
    own = [each for each in controls if each.claim.b and each.claim.b.variant == DOUBLED]
    answers = {
        "holds": "no",
        "suggested": "probably not",
        "undecided": "undecided",
        "no difference": "no difference",
        "doubtful": "probably",
        "does not hold": "yes",
        "too few seeds": "too few seeds to say",
        "not run": "not run yet",
    }
    answer = _by_metric(own, answers)
    sentences = [QUESTION.format(answer=f"{sentence(answer)}.")]
    if own[0].judgements:
        scale = by_scale(own)[0][0]
        control = next(e for e in evidence if (e.study.name, e.scale) == (CONTROL, scale))
        sentences += [_share(control), f"ER-BNT against that control: {figures(own)}"]
    return " ".join(filter(None, sentences))


def _share(control: Evidence) -> str:
    """What the control gains over ER, beside ER-BNT, over the seeds that all three have."""
    shares = []
    for metric in METRICS:
        er, doubled, bnt = (_by_seed(control, side, metric) for side in (_ER, _ER_DOUBLED, _ER_BNT))
        alone = mean(contrast([(1, doubled), (-1, er), (0, bnt)]))
        whole = mean(contrast([(1, bnt), (-1, er), (0, doubled)]))
        if alone is None or whole is None:
            return ""
        shares.append(f"{alone:+.2f} points of {metric.upper()}, where ER-BNT gains {whole:+.2f}")
    return f"Over ER, the doubled rate alone gains {', and '.join(shares)}."


_ER = Side(method="er", stream=STREAM)
_ER_DOUBLED = Side(method="er", stream=STREAM, variant=DOUBLED)
_ER_BNT = Side(method="er-bnt", stream=STREAM)
_ER_BUF = Side(method="er-cur+buf", stream=STREAM)
_CLS_ER_WORKING_PHI = Side(method="cls-er-working-phi", stream=STREAM)
_ER_RECALIBRATED = Side(method="er-recalibrate", stream=STREAM)


def _by_seed(control: Evidence, side: Side, metric: str) -> dict[int, float]:
    own = groups_of(control.study, control.scale, side, control.groups)
    return {record.seed: record.metrics[metric] for each in own for record in each.records}


def _balanced_phi(findings: Sequence[Finding]) -> str:
    """The same training with another φ, for the two ways to train θ."""
    answers = {
        "holds": "it helps",
        "suggested": "it seems to help",
        "undecided": "it is undecided whether it helps",
        "no difference": "it changes nothing",
        "doubtful": "it seems to harm",
        "does not hold": "it harms",
        "too few seeds": "there are too few seeds to say",
        "not run": "that was not run yet",
    }
    words = {}
    for name, sides in {"apart": (_ER_BNT, _ER_BUF), "joint": (_ER_RECALIBRATED, _ER)}.items():
        both = _ahead(*sides, findings)
        words |= {name: _by_metric(both, answers), f"figures_{name}": figures(both)}
    return " ".join(PHI.format(**words).split())


def _phi_or_head(findings: Sequence[Finding]) -> str:
    """What a corrected head gains, what BN Tricks has beyond that, and whether both are one."""
    own = _in_acc(findings, "bias")
    corrected = [f for f in own if f.claim.b == _ER and f.claim.a.method == "er"]
    # What harms ER repairs nothing that BN Tricks could repair as well.
    harmful = {_rival(f) for f in corrected if f.verdict in HARMFUL}
    tricked = [f for f in own if f.claim.a.method == "er-bnt" and f.claim.b]
    plain = [f for f in tricked if not f.claim.along]
    parts = {
        "ER with a corrected head against ER": (corrected, REMEDIES),
        "ER-BNT against ER with such a head": ([f for f in plain if _is_of(_ER, f)], RIVALS),
        "One θ, that of separate forwards: a balanced φ, which makes it ER-BNT, against such a "
        "head, with ER-Cur+Buf's φ": ([f for f in plain if _is_of(_ER_BUF, f)], RIVALS),
        "What ER-BNT gains over ER, less what it gains if both have such a head": (
            [f for f in tricked if f.claim.along and _rival(f) not in harmful],
            OVERLAP,
        ),
    }
    lines = [
        f"  - {text}: {_listed(group, words, _rival)}"
        for text, (group, words) in parts.items()
        if any(f.decisive for f in group)
    ]
    losses = [f for f in own if f.claim.b and f.claim.b.method == "er-ace"]
    if any(f.decisive for f in losses):
        lines.append(f"  - A better loss, ER-ACE: {_listed(losses, PAIRED, _both)}")
    return "\n".join([f"{HEAD} In ACC:", *lines]) if lines else f"{HEAD} No verdict yet."


def _trackers(findings: Sequence[Finding]) -> str:
    """The same training, and a φ that follows other batches."""
    own = _in_acc(findings, "trackers")
    parts = {
        "The losses and forwards of ER-Cur+Buf, with another φ, against ER-Cur+Buf": [
            f for f in own if _is_of(_ER_BUF, f)
        ],
        "CLS-ER's stable network with its own φ, which follows the memory alone, against the same "
        "with the working network's": [f for f in own if _is_of(_CLS_ER_WORKING_PHI, f)],
    }
    lines = [
        f"  - {text}: {_listed(group, PAIRED, _first)}"
        for text, group in parts.items()
        if any(f.decisive for f in group)
    ]
    return "\n".join([f"{TRACKERS} In ACC:", *lines]) if lines else f"{TRACKERS} No verdict yet."


def _is_of(other: Side, finding: Finding) -> bool:
    """Whether this is compared with that method, in whatever variant."""
    return finding.claim.b is not None and finding.claim.b.method == other.method


def _in_acc(findings: Sequence[Finding], *studies: str) -> list[Finding]:
    return [
        each
        for each in findings
        if each.study.name in studies
        and each.claim.metric == "acc"
        and each.claim.kind in ("greater", "trend")
        and each.claim.a.stream == STREAM
    ]


def _listed(
    group: Sequence[Finding],
    outcomes: Sequence[str],
    name: Callable[[Finding], str],
) -> str:
    """What each comparison came to, those of one outcome together."""
    parts = []
    for words, verdict in zip(outcomes, OUTCOMES, strict=True):
        listed = [f"{name(f)} {_decisive(f)}" for f in group if f.verdict == verdict]
        parts += [f"{sentence(words)} {'; '.join(listed)}."] if listed else []
    judged = [each.decisive for each in group if each.decisive]
    scales = " and ".join(f"`{scale}`" for scale in dict.fromkeys(scale for scale, _ in judged))
    seeds = seeds_of([judgement for _, judgement in judged])
    return " ".join([*parts, f"{sentence(seeds)}, {scales}."])


def _first(finding: Finding) -> str:
    """The first side of a comparison."""
    a = finding.claim.a
    return ", ".join(filter(None, (load_reported().titles[a.method], a.variant)))


def _both(finding: Finding) -> str:
    """Both sides of a comparison."""
    a, b = finding.claim.a, finding.claim.b
    assert b is not None
    titles = load_reported().titles
    setting = f" in a {a.variant}" if a.variant else ""
    return f"{titles[a.method]} against {titles[b.method]}{setting}"


def _rival(finding: Finding) -> str:
    """The correction that a claim is about."""
    claim = finding.claim
    return next(filter(None, (*(claim.along or ()), claim.a.variant, claim.b and claim.b.variant)))


def _decisive(finding: Finding) -> str:
    assert finding.decisive is not None
    return figure(finding.decisive[1], alone=True)
