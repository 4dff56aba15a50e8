"""The summary that the page opens with: sentences to quote, then what reproduces, what does not
and what is open, each with its figures. All of it is filled in from verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bntricks.paper import STREAMS, Claim, load_study
from bntricks.report.overview import WORDS, counted
from bntricks.report.tables.table import Cell, Table, number, to_markdown
from bntricks.report.verdicts import SEEDS_TO_CONFIRM
from bntricks.runs.record.metrics import metric_title
from results_page.by_task import by_task
from results_page.evidence import (
    FEWEST_SEEDS,
    JUDGED,
    STUDIES,
    Evidence,
    Finding,
    distinct,
)
from results_page.headlines import headlines
from results_page.other_phi import TITLE as OTHER_PHI
from results_page.wording import anchor, figures, sentence

METRICS = ("ACC", "BWT")
BY_HEART = "bias.md#when-the-memory-is-learned-by-heart"
KNOWN: dict[str, str] = {
    "After the second task ER-Cur+Prev has a lower ACC than ER-Balance-Batch on Seq-CIFAR-10": (
        "(In the second task old and new classes are equally many, so there ER-Balance-Batch is "
        "still ER.)"
    ),
    "ER-Cur+Prev has a positive BWT on Seq-CIFAR-10": (
        "(The sign depends on φ: ER-BNT-No-Simulator, whose BWT is positive, has the same θ and a "
        f"balanced φ. In the run that was [probed](#{anchor(OTHER_PHI)}), about a third of the "
        "newest task is known if its share of φ is a fifth, and nearly all of it if that is three "
        "fifths; ER-Cur+Prev's own φ lies between.)"
    ),
    **dict.fromkeys(
        (f"ER-Cur+Buf has a higher {metric} than ER on Seq-CIFAR-10" for metric in METRICS),
        "(The difference rises with [training length](#how-effects-move-with-training-length), and "
        "is above zero in the run of the paper's length.)",
    ),
    **dict.fromkeys(
        (f"ER-Cur+Buf has a higher {m} than ER-Balance-Batch on Seq-CIFAR-10" for m in METRICS),
        "(φ is the reason: with a balanced φ the same θ is ER-BNT, which is far above both. The "
        "difference from ER, which is like ER-Balance-Batch here, rises with [training length]"
        "(#how-effects-move-with-training-length).)",
    ),
    **dict.fromkeys(
        (f"iCaRL-BNT has a higher {metric} than iCaRL on Seq-CIFAR-10" for metric in METRICS),
        "(iCaRL compares features with class means that it takes under the same φ, and [another φ]"
        f"(#{anchor(OTHER_PHI)}) gained it nothing in the run that was probed.)",
    ),
    **dict.fromkeys(
        (f"Recalibrating φ after each task gives ER a higher {m} on Seq-CIFAR-10" for m in METRICS),
        "(θ of joint forwards relies on the φ that it was trained with: in the run that was probed "
        f"it loses nearly as much under [φ of all images](#{anchor(OTHER_PHI)}), so neither the "
        "size of the memory nor learning it by heart is the reason.)",
    ),
    **dict.fromkeys(
        (
            f"Correcting the head helps: ER has a higher {metric} with {correction} than without "
            "on Seq-CIFAR-10"
            for metric in METRICS
            for correction in ("WA", "WA for prediction")
        ),
        f"(The new rows of the head are the shorter ones here, and WA lengthens them: [by heart]"
        f"({BY_HEART}).)",
    ),
    **dict.fromkeys(
        (
            f"Correcting the head helps: ER has a higher {metric} with IL2M than without on "
            "Seq-CIFAR-10"
            for metric in METRICS
        ),
        "(The network is surer of stored images than it was of new ones, so IL2M raises no old "
        f"class: [by heart]({BY_HEART}).)",
    ),
    **dict.fromkeys(
        (
            f"WA and BN Tricks repair the same thing: ER-BNT gains less {metric} over ER with WA "
            "than without on Seq-CIFAR-10"
            for metric in METRICS
        ),
        "(That is not what it says here: WA harms both, and ER-BNT more than ER.)",
    ),
    **dict.fromkeys(
        (
            f"BiC and a balanced φ repair the same thing: recalibration gains ER less {metric} "
            "with BiC than without on Seq-CIFAR-10"
            for metric in METRICS
        ),
        "(Recalibration harms ER, and BiC takes most of that harm back.)",
    ),
    **dict.fromkeys(
        (
            "CLS-ER has a higher ACC than ER on Seq-CIFAR-10",
            "CLS-ER has a higher ACC than DER++ on Seq-CIFAR-10",
            "With its authors' learning rate, CLS-ER has a higher ACC than DER++ on Seq-CIFAR-10",
            "A slow copy beats BN Tricks: CLS-ER has a higher ACC than ER-BNT on Seq-CIFAR-10",
            "Averaged weights help besides the tracker: with the same φ, the stable network has a "
            "higher ACC than the working one on Seq-CIFAR-10",
        ),
        "(The stable network is too slow for tasks of 2,520 steps: it moves in one step of ten and "
        "keeps 0.999 of itself, an average over some 10,000 steps, and does not know the newest "
        "task at all.)",
    ),
    "DER++ (0.44) has less to gain from a smaller share than ER (0.60): a perfect φ would gain ER "
    "more than DER++ on Seq-CIFAR-10": (
        "(The share is not all that counts: ER's θ is trained in joint forwards, and [loses under "
        f"a perfect φ](#{anchor(OTHER_PHI)}).)"
    ),
}
"""What is known about a claim, by its text: why it does not hold, or what its figure does not say,
in a sentence or two that a probe, a control run or the method's definition supports."""

STREAM = STREAMS["seq-cifar10"]
LISTS = {
    "holds": "Reproduces",
    "suggested": "Seems to reproduce, but is not confirmed",
    "does not hold": "Does not reproduce",
    "doubtful": "Seems not to reproduce, but that is not confirmed",
    "no difference": "No difference: every seed has the same on both sides",
    "undecided": "Open, because the interval allows either answer",
    "too few seeds": "Open, because there are too few seeds",
}

OPEN = {
    "no difference": ("shows no difference", "show no difference"),
    "undecided": ("is undecided", "are undecided"),
    "too few seeds": ("has too few seeds", "have too few seeds"),
}

READING = f"""In these lists, figures are in points, in the direction of the claim: a negative one
points the other way. Brackets hold the 95% interval and the paper's own difference. A claim seems
to reproduce if the interval says what it says, such as "higher"; it need not have the paper's size.
It reproduces if the same test confirms that after Holm's adjustment for all claims of its study,
over at least {SEEDS_TO_CONFIRM} seeds. A verdict needs at least {FEWEST_SEEDS} seeds. A claim
counts at the largest scale that has a verdict on it, or at a smaller one that confirms that verdict
with more seeds; other scales stand beside it. Where a comparison comes out the other way and nobody
knows why, the tasks it comes from are given: BWT also falls if tasks are learned better and kept
alike. Claims are about {STREAM} unless they name another stream.
"""


def summary(evidence: Sequence[Evidence], findings: Sequence[Finding]) -> list[str]:
    once = distinct(findings)
    papers = [each for each in once if each.study.of_the_paper]
    beyond = [each for each in once if not each.study.of_the_paper and each.judgements]
    lines = ["## Summary", "", *(f"- {line}" for line in headlines(evidence, findings))]
    lines += ["", _counts(papers), "", READING]
    for verdict, title in LISTS.items():
        lines += _listed(title, [each for each in papers if each.verdict == verdict], evidence)
    for title in dict.fromkeys(each.study.title for each in beyond):
        lines += _decided(title, [each for each in beyond if each.study.title == title], evidence)
    return [*lines, to_markdown(_by_study(findings)), ""]


def _counts(papers: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in papers)
    judged = sum(counts[verdict] for verdict in JUDGED)
    verdicts = ", ".join(
        f"{counts[verdict]} {WORDS[verdict][counts[verdict] != 1]}"
        for verdict in JUDGED
        if counts[verdict]
    )
    return (
        f"The studies state {len(papers)} claims of the paper, on all its streams and memory "
        f"sizes. So far {judged} have a verdict: {verdicts or 'none'}. "
        f"{counts['too few seeds']} have too few seeds, and {counts['not run']} were "
        "[not run](#not-run-yet)."
    )


def _listed(title: str, own: Sequence[Finding], evidence: Sequence[Evidence]) -> list[str]:
    return [_heading(title, own), "", *_items(own, evidence), ""] if own else []


def _decided(title: str, own: Sequence[Finding], evidence: Sequence[Evidence]) -> list[str]:
    """What a study beyond the paper has decided, and how much it has not."""
    counts = Counter(each.verdict for each in own)
    rest = [
        f"{counted(count, 'claim')} {words[count != 1]}"
        for verdict, words in OPEN.items()
        if (count := counts[verdict])
    ]
    decided = [each for each in own if each.verdict not in OPEN]
    lines = _items(decided, evidence, with_verdict=True)
    if rest:
        lines.append(f"- {' and '.join(rest)}: [all figures](#{anchor(title)}).")
    return [_heading(title, own), "", *lines, ""]


def _heading(title: str, own: Sequence[Finding]) -> str:
    return f"**{title}** ({counted(len(own), 'claim')})"


def _items(
    own: Sequence[Finding], evidence: Sequence[Evidence], *, with_verdict: bool = False
) -> list[str]:
    """An item for each finding, those that share a sentence and a verdict together."""
    merged: dict[tuple[str, str], list[Finding]] = {}
    for finding in own:
        merged.setdefault((_pattern(finding.claim), finding.verdict), []).append(finding)
    lines = []
    for (pattern, verdict), together in merged.items():
        metrics = " and ".join(metric_title(each.claim.metric) for each in together)
        word = f"*{sentence(verdict)}.*" if with_verdict else ""
        text = f"{pattern.format(metric=metrics)}."
        parts = [text, word, sentence(figures(together)), _known(together, evidence)]
        lines.append(f"- {' '.join(filter(None, parts))}")
    return lines


def _pattern(claim: Claim) -> str:
    """A claim's text without the stream that most claims share, and with its metric left open."""
    text = claim.text.replace(f" on {STREAM}", "")
    if claim.metric not in ("acc", "bwt"):
        return text
    return f"{text} ".replace(f" {claim.metric.upper()} ", " {metric} ").rstrip()


def _known(together: Sequence[Finding], evidence: Sequence[Evidence]) -> str:
    """What is known about these; where that is nothing and they fail, which tasks it comes from."""
    notes = dict.fromkeys(KNOWN[f.claim.text] for f in together if f.claim.text in KNOWN)
    if notes or together[0].verdict not in ("doubtful", "does not hold"):
        return " ".join(notes)
    return by_task(together[0], evidence) or "The reason is not known."


def _by_study(findings: Sequence[Finding]) -> Table:
    """How many claims of each study have which verdict."""
    kinds = (*JUDGED, "too few seeds", "not run")
    rows = []
    for study in map(load_study, STUDIES):
        counts = Counter(each.verdict for each in findings if each.study.name == study.name)
        numbers = (len(study.claims), *(counts[kind] for kind in kinds))
        artefacts = Cell(", ".join(study.artefacts))
        rows.append((Cell(study.name), artefacts, *(number(each, 0) for each in numbers)))
    return Table(
        "Claims by study",
        ("Study", "Of the paper", "Claims", *map(sentence, kinds)),
        tuple(rows),
        ("A claim that two studies make counts in both rows.",),
    )
