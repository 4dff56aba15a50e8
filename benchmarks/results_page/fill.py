"""The page's words: `page.md`, whose placeholders are filled from the records, and what is known
about claims, `claims.toml`. No number and no verdict stands in either file."""

import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bntricks.errors import counted
from bntricks.paper import STREAMS, ScaleName, load_reported, load_study
from bntricks.report.overview import WORDS
from bntricks.report.tables.table import Cell, Table, number, to_markdown
from bntricks.report.verdicts import Judgement
from bntricks.runs.metrics import metric_title
from results_page.evidence import JUDGED, STUDIES, Evidence, Finding, distinct, is_judged

HERE = Path(__file__).parent
STREAM = f" on {STREAMS['seq-cifar10']}"
FAILING = ("doubtful", "does not hold")
OPEN = ("undecided", "no difference")
FINDINGS = ("phi-share", "exemplars", "rehearsal-free")
"""Studies of hypotheses that were written down before the runs."""
RIVALS = {
    "holds": "ahead of",
    "suggested": "seems ahead of",
    "undecided": "undecided against",
    "no difference": "no different from",
    "doubtful": "seems behind",
    "does not hold": "behind",
}
"""What verdicts are called for two rivals: only a confirmed difference puts one ahead."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A claim in a sentence: `{key}` is its numbers, `{key:verdict}` its verdict."""

    finding: Finding

    def __format__(self, form: str) -> str:
        if form == "verdict":
            return f"*{self.finding.verdict}*"
        return figures(self.finding)


@cache
def known() -> dict[str, Any]:
    """The claims that the page names by key, and notes on others by their text."""
    return tomllib.loads((HERE / "claims.toml").read_text(encoding="utf-8"))


def named(findings: Sequence[Finding], mark: str = "") -> dict[str, Finding]:
    """The claims that the page names, by key; or those with this mark, by label."""
    by_text = {(each.study.name, each.claim.text): each for each in findings}
    return {
        claim["label" if mark else "key"]: by_text[claim["study"], claim["text"]]
        for claim in known()["claim"]
        if not mark or mark in claim.get("marks", ())
    }


def figures(finding: Finding) -> str:
    """The numbers of a claim at each scale that has a verdict, and the paper's."""
    judged = [(scale, each) for scale, each in finding.judgements if is_judged(each)]
    if not judged:
        return f"without a verdict ({finding.verdict})"
    parts = [
        f"{each.ours:+.1f} points ({interval(each)}; {counted(each.seeds, 'seed')}, `{scale}`)"
        for scale, each in judged
    ]
    paper = judged[0][1].paper.mean
    return " and ".join(parts) + (f", in the paper {paper:+.1f}" if paper is not None else "")


def interval(judgement: Judgement) -> str:
    return f"{judgement.low:.1f} to {judgement.high:.1f}"


def filled(evidence: Sequence[Evidence], findings: Sequence[Finding], **more: str) -> str:
    """The page."""
    papers = [each for each in distinct(findings) if each.study.of_the_paper]
    values = {key: Shown(finding) for key, finding in named(findings).items()}
    parts = {
        "counts": counts(papers),
        "failing": "\n".join(listed(papers, FAILING)),
        "open": "\n".join(listed(papers, OPEN)),
        "layers": layers(findings),
        "studies": to_markdown(by_study(evidence, findings)),
        **{f"tally_{name.replace('-', '_')}": tally(name, findings) for name in FINDINGS},
        "not_run": not_run(evidence),
    }
    text = (HERE / "page.md").read_text(encoding="utf-8")
    return text.format_map({**values, **parts, **more})


def counts(papers: Sequence[Finding]) -> str:
    """How the paper's claims fared."""
    by_verdict = Counter(each.verdict for each in papers)
    judged = ", ".join(
        f"{by_verdict[verdict]} {WORDS[verdict][by_verdict[verdict] != 1]}"
        for verdict in JUDGED
        if by_verdict[verdict]
    )
    return (
        f"The studies state {len(papers)} claims of the paper, on all its streams and sizes of the "
        f"memory. {sum(by_verdict[v] for v in JUDGED)} have a verdict so far: {judged or 'none'}. "
        f"{by_verdict['too few seeds']} have too few seeds; {by_verdict['not run']} were not run."
    )


def listed(own: Sequence[Finding], verdicts: Sequence[str]) -> list[str]:
    """A line for each claim with one of these verdicts, those that share a sentence together."""
    together: dict[tuple[str, str], list[Finding]] = {}
    for finding in own:
        if finding.verdict in verdicts:
            together.setdefault((_pattern(finding), finding.verdict), []).append(finding)
    lines = []
    for (pattern, verdict), same in together.items():
        metrics = [metric_title(each.claim.metric) for each in same]
        numbers = "; ".join(
            f"{name} {figures(each)}" for name, each in zip(metrics, same, strict=True)
        )
        notes = dict.fromkeys(_note(each.claim.text) for each in same)
        text = f"- {pattern.format(metric=' and '.join(metrics))}: *{verdict}*. {numbers}."
        lines.append(" ".join(filter(None, (text, *notes))))
    return lines or ["- None."]


def _pattern(finding: Finding) -> str:
    """A claim's text without the stream that most share, and with its metric left open."""
    text = finding.claim.text.replace(STREAM, "")
    metric = finding.claim.metric.upper()
    return f"{text} ".replace(f" {metric} ", " {metric} ").rstrip() if metric in text else text


def _note(text: str) -> str:
    """Why a claim comes out as it does, as far as a probe or a control says."""
    notes = (each["text"] for each in known()["note"] if text in each["claims"])
    return next(notes, "The reason is not known.")


def layers(findings: Sequence[Finding]) -> str:
    """How BN Tricks fares against other layers in ACC: a sentence for each form of it. A layer that
    was trained at two learning rates counts by the one that BN Tricks fares worse against."""
    order = list(RIVALS)
    forms: dict[str, dict[str, str]] = {}
    for label, each in against_layers(findings).items():
        form, rival = label.split(" against ")
        rival = rival.partition(" at lr")[0]
        worst = max(each.verdict, forms.setdefault(form, {}).get(rival, order[0]), key=order.index)
        forms[form][rival] = worst
    sentences = []
    for form, outcomes in forms.items():
        parts = [
            f"{words} {', '.join(own)}"
            for verdict, words in RIVALS.items()
            if (own := [rival for rival, outcome in outcomes.items() if outcome == verdict])
        ]
        sentences.append(f"- {form}: {'; '.join(parts)}.")
    return "\n".join(sentences) or "- Not run yet."


def against_layers(findings: Sequence[Finding]) -> dict[str, Finding]:
    """The comparisons in ACC of BN Tricks with another layer that have a verdict, by label."""
    found = {}
    titles = load_reported().titles
    for each in findings:
        a, b = each.claim.a, each.claim.b
        plain = b is not None and "-bnt" in a.method and "-bnt" not in b.method and not a.variant
        if (
            each.study.name in ("norms", "norms-online")
            and (each.claim.kind, each.claim.metric, a.stream) == ("greater", "acc", "seq-cifar10")
            and plain
            and b
            and b.variant
            and each.decisive
        ):
            setting = each.study.title.rsplit(", ")[-1]
            rival = b.variant.replace(", lr", " at lr")
            found[f"{titles[a.method]} {setting} against {rival}"] = each
    return found


def tally(study: str, findings: Sequence[Finding]) -> str:
    """How the claims of a study fared, in a sentence."""
    own = [each for each in findings if each.study.name == study]
    by_verdict = Counter(each.verdict for each in own)
    parts = ", ".join(f"{count} *{verdict}*" for verdict, count in by_verdict.items())
    return f"Of its {counted(len(own), 'claim')}: {parts}."


def not_run(evidence: Sequence[Evidence]) -> str:
    """The paper's streams, its own scale and the studies that have no runs."""
    streams = {group.stream for each in evidence for group in each.groups}
    scales = {each.scale for each in evidence}
    studies = {each.study.name for each in evidence}
    parts = [title for name, title in STREAMS.items() if name not in streams]
    parts += [] if "paper" in scales else ["the paper's own scale"]
    parts += [f"the study `{name}`" for name in STUDIES if name not in studies]
    return ", ".join(parts) or "nothing"


def by_study(evidence: Sequence[Evidence], findings: Sequence[Finding]) -> Table:
    """Which studies were run, at which scales, and how many claims have a verdict."""
    rows = []
    for study in map(load_study, STUDIES):
        own = [each for each in findings if each.study.name == study.name]
        scales: list[ScaleName] = [e.scale for e in evidence if e.study.name == study.name]
        judged = sum(each.decisive is not None for each in own)
        numbers = (len(own), judged, sum(each.verdict == "not run" for each in own))
        cells = (Cell(study.name), Cell(", ".join(study.artefacts).partition(":")[0]))
        rows.append((*cells, *(number(n, 0) for n in numbers), Cell(", ".join(scales) or "–")))
    columns = ("Study", "Of the paper", "Claims", "With a verdict", "Not run", "Scales")
    return Table("What was run", columns, tuple(rows))
