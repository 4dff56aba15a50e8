"""BN Tricks with BatchNorm against the same method with another layer: who is ahead, in a few lines
to quote and in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import altair as alt

from bntricks.paper import ScaleName, Side, load_reported
from bntricks.report.figures.claims import VERDICTS
from bntricks.report.figures.figure import LETTER, WIDTH, Figure, Row
from bntricks.report.tables.table import SKIPPED, Cell, Table, interval, number, to_markdown
from bntricks.report.verdicts import Judgement
from bntricks.runs.record.metrics import metric_title
from results_page.evidence import Finding
from results_page.wording import OUTCOMES, RIVALS, anchor, seeds_of, sentence

STUDIES = ("norms-online", "norms")
BETTER_LOSS = "er-ace"
"""A rival that is no layer, and needs none: it stands beside them (study `bias`)."""
METRICS = ("acc", "bwt")
MANY_EPOCHS = "over many epochs"
QUESTION = "**Against which other normalisations does BN Tricks win?**"
TITLE = "BN Tricks against other normalisations"
TEXT = f"""## {TITLE}

How many points BN Tricks is ahead of the same method with another layer. Bold: the interval leaves
zero out. Where no learning rate is named it is 0.03, which was chosen for BatchNorm. AdaB²N needs a
joint forward of new and replayed images, so it is compared as DER++-Joint and ER-ACE-Joint, and so
is a slow average, which AdaB²N's φ is. ER-ACE is a loss and not a layer; it
stands here because it addresses the same bias.
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A form of BN Tricks, a rival, and what became of each metric."""

    setting: str
    a: Side
    b: Side
    findings: dict[str, Finding]

    @property
    def form(self) -> str:
        return ", ".join(filter(None, (f"{_title(self.a)} {self.setting}", self.a.variant)))

    @property
    def layer(self) -> str:
        """The rival's layer, without what both sides share."""
        if self.is_loss:
            return _title(self.b)
        own = self.b.variant.removesuffix(self.a.variant).removesuffix(", ")
        return own.replace(", lr", " at lr") or "BN"

    @property
    def is_loss(self) -> bool:
        """Whether the rival differs in its loss, and not in its layer."""
        return self.b.method == BETTER_LOSS and not self.a.method.startswith(BETTER_LOSS)

    @property
    def rival(self) -> str:
        return _title(self.b) if self.is_loss else f"{_title(self.b)} with {self.layer}"

    @property
    def short(self) -> str:
        """The rival's layer, and its forward where that is all that differs."""
        joint = self.layer == "BN" and self.b.method.endswith("-joint")
        return "BN in a joint forward" if joint else self.layer


def layers_headline(findings: Sequence[Finding]) -> str:
    """Against which layers each form of BN Tricks comes out ahead, and against which not."""
    own = comparisons(findings)
    forms: dict[str, list[Comparison]] = {}
    for each in own:
        if any(finding.decisive for finding in each.findings.values()):
            forms.setdefault(each.form, []).append(each)
    if not forms:
        return f"{QUESTION} No verdict yet."
    lines = [f"{QUESTION} Intervals are in [a table](#{anchor(TITLE)})."]
    lines += [f"  - {form}. {_outcomes(group)}" for form, group in forms.items()]
    if left := len(own) - sum(map(len, forms.values())):
        lines.append(f"  - {left} more comparisons have no verdict yet.")
    return "\n".join(lines)


def layers_in_short(findings: Sequence[Finding]) -> str:
    """The same in ACC, without numbers: a sentence for each form. A layer that was trained at two
    learning rates counts by the one that BN Tricks fares worse against."""
    forms: dict[str, dict[str, int]] = {}
    for each in comparisons(findings):
        finding = each.findings.get("acc")
        if each.a.variant or each.layer == "BN" or not finding or not finding.decisive:
            continue
        worse = OUTCOMES.index(finding.verdict)
        outcomes, layer = forms.setdefault(each.form, {}), each.layer.partition(" at lr")[0]
        outcomes[layer] = max(worse, outcomes.get(layer, 0))
    sentences = []
    for form, outcomes in forms.items():
        lists = [[n for n, own in outcomes.items() if own == i] for i in range(len(OUTCOMES))]
        parts = [
            f"{words} {', '.join(own)}" for words, own in zip(RIVALS, lists, strict=True) if own
        ]
        sentences.append(f"{form}: {'; '.join(parts)}.")
    return " ".join(sentences)


def layers_section(findings: Sequence[Finding]) -> list[str]:
    """The comparisons that have runs, as a table, and the place of their figure; nothing without
    any."""
    own = [c for c in comparisons(findings) if any(f.judgements for f in c.findings.values())]
    if not own:
        return []
    lines = [TEXT, to_markdown(_table(own)), ""]
    if figure := layers_figure(findings):
        lines += [f"![{figure.title}](figures/{figure.name}.svg)", ""]
    return lines


def layers_figure(findings: Sequence[Finding]) -> Figure | None:
    """Every difference that has a verdict, with its interval: a panel for each form and metric."""
    rows = [
        {
            "form": each.form,
            "rival": each.rival,
            "metric": metric_title(metric),
            "shown": finding.verdict,
            "difference": finding.decisive[1].ours,
            "low": finding.decisive[1].low,
            "high": finding.decisive[1].high,
        }
        for each in comparisons(findings)
        for metric, finding in each.findings.items()
        if finding.decisive
    ]
    if not rows:
        return None
    text = "How many points BN Tricks is ahead, with 95% intervals over seeds."
    forms = [_panels(form, rows) for form in dict.fromkeys(row["form"] for row in rows)]
    return Figure("layers-seq-cifar10", TITLE, text, alt.vconcat(*forms), rows)


def _panels(form: str, rows: Sequence[Row]) -> Any:
    """ACC and BWT of one form beside each other, on the axes of all forms."""
    looks = {name: look for name, look in VERDICTS.items() if name in {r["shown"] for r in rows}}
    colours, shapes = (
        alt.Scale(domain=list(looks), range=list(values))
        for values in zip(*looks.values(), strict=True)
    )
    panels: list[Any] = []
    longest = LETTER * max(len(row["rival"]) for row in rows)
    for metric in dict.fromkeys(row["metric"] for row in rows):
        alike = [row for row in rows if row["metric"] == metric]
        ends = [row[end] for row in alike for end in ("low", "high")]
        scale = alt.Scale(domain=[min(0, *ends), max(0, *ends)], nice=True)
        own = [row for row in alike if row["form"] == form]
        names = None if panels else alt.Axis(labelLimit=0, minExtent=longest)
        chart = alt.Chart(alt.InlineData(values=own)).encode(
            y=alt.Y("rival:N", title=None, sort=None, axis=names),
            color=alt.Color("shown:N", title=None, scale=colours),
        )
        x = partial(alt.X, title=f"{metric}: points ahead", scale=scale, axis=alt.Axis(tickCount=6))
        span = chart.mark_rule(strokeWidth=2).encode(x=x("low:Q"), x2="high:Q")
        shape = alt.Shape("shown:N", title=None, scale=shapes)
        point = chart.mark_point(filled=True, size=60, opacity=1).encode(
            x=x("difference:Q"), shape=shape
        )
        zero = alt.Chart().mark_rule(opacity=0.5).encode(x=alt.datum(0))
        height = 18 * len({row["rival"] for row in own})
        panels.append(alt.layer(zero, span, point).properties(width=WIDTH * 0.35, height=height))
    title = alt.TitleParams(form, anchor="start", fontSize=12)
    return alt.hconcat(*panels).properties(title=title)


def comparisons(findings: Sequence[Finding]) -> list[Comparison]:
    found: dict[tuple[str, Side, Side], dict[str, Finding]] = {}
    for each in findings:
        a, b = each.claim.a, each.claim.b
        loss = b and (a.method, b.method, b.variant) == ("er-bnt", BETTER_LOSS, "")
        if (
            (each.study.name in STUDIES or (each.study.name == "bias" and loss))
            and each.claim.kind == "greater"
            and each.claim.metric in METRICS
            and a.stream == "seq-cifar10"
            and "-bnt" in a.method
            and b
            and "-bnt" not in b.method
        ):
            setting = MANY_EPOCHS if loss else each.study.title.rsplit(", ")[-1]
            found.setdefault((setting, a, b), {})[each.claim.metric] = each
    return [Comparison(*key, own) for key, own in found.items()]


def _title(side: Side) -> str:
    return load_reported().titles[side.method]


def _outcomes(group: Sequence[Comparison]) -> str:
    """What each metric came to, rivals of one outcome together."""
    sentences, judged = [], []
    for metric in METRICS:
        parts = []
        for words, verdict in zip(RIVALS, OUTCOMES, strict=True):
            listed = [
                (each.short, decisive[1])
                for each in group
                if (finding := each.findings.get(metric)) and finding.verdict == verdict
                if (decisive := finding.decisive)
            ]
            judged += [judgement for _, judgement in listed]
            names = ", ".join(f"{name} ({own.ours:+.1f})" for name, own in listed)
            parts += [f"{words} {names}"] if names else []
        sentences += [f"{metric_title(metric)}: {'; '.join(parts)}."] if parts else []
    return " ".join([*sentences, f"{sentence(seeds_of(judged))}."])


def _table(own: Sequence[Comparison]) -> Table:
    rows = []
    for each in own:
        scale, judgement = next(_counting(f) for f in each.findings.values() if f.judgements)
        cells = [cell for metric in METRICS for cell in _difference(each.findings.get(metric))]
        last = (number(judgement.seeds, 0), Cell(scale))
        rows.append((Cell(each.form), Cell(each.rival), *cells, *last))
    columns = ("", "Against", "ACC", "95% interval", "BWT", "95% interval", "Seeds", "Scale")
    return Table(f"{TITLE}, Seq-CIFAR-10", columns, tuple(rows))


def _counting(finding: Finding) -> tuple[ScaleName, Judgement]:
    """The verdict that counts, or, before there is one, what the largest scale has."""
    return finding.decisive or finding.judgements[0]


def _difference(finding: Finding | None) -> tuple[Cell, Cell]:
    """The number that counts, and its interval."""
    if finding is None or not finding.judgements:
        return SKIPPED, SKIPPED
    _, own = _counting(finding)
    decided = finding.verdict in (*OUTCOMES[:2], *OUTCOMES[-2:])
    return Cell(f"{own.ours:+.2f}", own.ours, bold=decided), interval(own.low, own.high)
