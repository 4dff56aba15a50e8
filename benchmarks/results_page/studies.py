"""A page for each study: what the report has on its runs at each scale, and what is known about its
claims."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from bntricks.methods import same_recipe
from bntricks.report.figures.claims import verdict_chart
from bntricks.report.figures.figure import Figure
from bntricks.report.figures.lines import curves, over_share, per_task
from bntricks.report.groups import RunGroup, by_stream, cut_down_label
from bntricks.report.overview import WORDS, claims_title
from bntricks.report.tables.paper_form import paper_form
from bntricks.report.tables.results import verdict_table
from bntricks.report.tables.table import Table, csv_text, only, to_markdown
from bntricks.report.verdicts import Judgement
from results_page.evidence import Evidence, Finding, is_judged
from results_page.fill import known

MAPPED = ("overlap", "statistics")
"""Probes of studies that have maps to show, which are not on these pages."""
IN_THE_CSV = ("Compared", "Metric", "Where")
"""Columns of verdicts that a page has no room for."""
LINES = 12
"""More cannot be told apart in one figure."""
COLUMNS = (
    *("study", "claim", "verdict", "scale", "difference", "low", "high", "seeds"),
    *("paper", "paper_low", "paper_high", "p", "p_holm", "decided_by"),
    *("metric", "kind", "where", "artefacts"),
)


def study_page(own: Sequence[Evidence]) -> tuple[str, dict[str, Figure]]:
    """The page of a study, and the figures of the first of its scales, which has most to say."""
    study = own[0].study
    source = "; ".join(study.artefacts)
    lines = [f"# {study.title}", "", f"{source[:1].upper()}{source[1:]}.", ""]
    figures: dict[str, Figure] = {}
    given: set[str] = set()
    for index, each in enumerate(own):
        remark = cut_down_label(each.groups)
        lines += [f"## {each.scale.capitalize()} scale", "", *namesakes(each.groups)]
        lines += [_once(paper_form(each.groups, study), given)]
        if each.with_runs:
            table = verdict_table(each.with_runs, remark, claims_title(study))
            kept = [i for i, name in enumerate(table.columns) if name not in IN_THE_CSV]
            table = only(table, kept)
            lines += [tally(each.with_runs), "", _once(table, given)]
        for figure in drawn(each) if not index else ():
            name = f"{study.name}-{figure.name}"
            figures[name] = figure
            lines += [f"![{figure.title}](../figures/{name}.svg)", ""]
    return "\n".join(lines + notes(own)).rstrip() + "\n", figures


def drawn(own: Evidence) -> list[Figure]:
    """The figures that a reader can take in."""
    first, *_ = by_stream(own.groups).values()
    claims = verdict_chart(own.with_runs, cut_down_label(own.groups))
    figures = [claims] if claims and not claims.folded else []
    if len(first) <= LINES and own.study.probe not in MAPPED:
        share = over_share(first) if own.study.probe == "phi" else None
        figures += [curves(first), per_task(first), *([share] if share else [])]
    return figures


def tally(judgements: Sequence[Judgement]) -> str:
    """How many claims hold, in a sentence."""
    counts = Counter(each.verdict if is_judged(each) else "too few" for each in judgements)
    words = {**WORDS, "too few": ("has too few seeds", "have too few seeds")}
    parts = [
        f"{counts[verdict]} {word[counts[verdict] != 1]}"
        for verdict, word in words.items()
        if counts[verdict]
    ]
    return f"Of {len(judgements)} claims with runs on both sides, {', '.join(parts)}."


def namesakes(groups: Sequence[RunGroup]) -> list[str]:
    """What was trained under another name, of the same recipe or of one that trains the same θ."""
    lines = []
    for group in groups:
        names = {record.trained_as for record in group.records if record.trained_as}
        for name in sorted(names):
            seeds = [str(each.seed) for each in group.records if each.trained_as == name]
            source = f"was trained as {name}, which is the same recipe"
            if name not in same_recipe(group.method, group.knobs["hyper"]):
                source = f"was read off a run of {name}, which trains the same θ"
            which = f"seed {seeds[0]}" if len(seeds) == 1 else f"each of seeds {', '.join(seeds)}"
            lines += [f"Of {group.method}, {which} {source}.", ""]
    return lines


def notes(own: Sequence[Evidence]) -> list[str]:
    """What is known about claims of the study that have runs."""
    texts = {judged.claim.text for each in own for judged in each.with_runs}
    lines = [
        f"- {'; '.join(claims)}. {each['text'].replace('](', '](../')}"
        for each in known()["note"]
        if (claims := [text for text in each["claims"] if text in texts])
    ]
    return ["## What is known about these claims", "", *lines, ""] if lines else []


def _once(table: Table, given: set[str]) -> str:
    """A table with those of its notes that no table before it had."""
    new = tuple(note for note in table.notes if note not in given)
    given.update(new)
    return to_markdown(replace(table, notes=new))


def claims_csv(findings: Sequence[Finding]) -> str:
    """Every claim of every study, at the scale that counts."""
    rows = []
    for each in findings:
        study, claim = each.study, each.claim
        scale, own = each.decisive or (each.judgements or ((None, None),))[0]
        row: list[object] = [study.name, claim.text, each.verdict]
        if own is None:
            row += [None] * 11
        else:
            row += [scale, own.ours, own.low, own.high, own.seeds]
            row += [own.paper.mean, own.paper.low, own.paper.high]
            row += [own.p, own.p_holm, own.rule or own.reason]
        rows.append([*row, claim.metric, claim.kind, claim.where, "; ".join(study.artefacts)])
    # More digits would differ between machines.
    kept = [[round(x, 6) if isinstance(x, float) else x for x in row] for row in rows]
    return csv_text(COLUMNS, kept)
