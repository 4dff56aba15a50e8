"""Write docs/results.md, and what README.md quotes of it, from the records in docs/results alone.

    python benchmarks/write_results.py

Every number and every verdict on the page is computed. What is not there yet is listed with the
command that runs it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import readme
from bntricks.methods import same_recipe
from bntricks.report.figures.claims import verdict_chart
from bntricks.report.figures.figure import Figure
from bntricks.report.figures.lines import curves, per_task
from bntricks.report.files import svg
from bntricks.report.groups import Group, by_stream, cut_down_label
from bntricks.report.overview import WORDS, claims_title
from bntricks.report.records import load_records
from bntricks.report.tables.paper_form import paper_form
from bntricks.report.tables.results import verdict_table
from bntricks.report.tables.table import Table, to_markdown
from bntricks.report.verdicts import Judgement
from bntricks.runs.record import Record
from results_page.evidence import STUDIES, Evidence, distinct, findings, gather, is_judged
from results_page.layers import layers_figure, layers_section
from results_page.lengths import lengths
from results_page.missing import missing
from results_page.other_phi import other_phi, share_figure
from results_page.quoted import quoted
from results_page.scales import scales_table
from results_page.summary import summary
from results_page.wording import sentence

MAPPED = ("overlap", "statistics")
"""Probes of studies that have maps to show, which are not on this page."""
LINES = 12
"""More cannot be told apart in one figure."""
DOCS = Path(__file__).parents[1] / "docs"

HEAD = """# Results

Which claims of the paper hold in our runs? The runs are on CIFAR-10, at scales that a CPU
can train:
"""

AFTER = """Accuracies are therefore not comparable with the paper's. Differences between methods
that were trained alike are what is judged; where a claim does not hold, the scale may be the
reason.

This page is written from the records in `docs/results/` by `python benchmarks/write_results.py`.
[Studies](studies.md#verdicts) says how claims are judged.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=DOCS, help="where the page and its figures go")
    out = parser.parse_args().out
    (out / "figures").mkdir(parents=True, exist_ok=True)
    records = load_records([DOCS / "results"])
    text, figures = page(records)
    for name, figure in figures.items():
        (out / "figures" / f"{name}.svg").write_bytes(svg(figure))
    for path in figure_files(out):
        if path.stem not in figures:
            path.unlink()
    (out / "results.md").write_text(text, encoding="utf-8")
    if out == DOCS:
        readme.put("results", quoted(records))


def figure_files(docs: Path) -> list[Path]:
    """The figures that were written for this page."""
    names = (*STUDIES, "layers", "other-phi")
    return sorted({path for name in names for path in docs.glob(f"figures/{name}-*.svg")})


def page(records: Sequence[Record]) -> tuple[str, dict[str, Figure]]:
    """The page's text, and its figures by name."""
    evidence = gather(records)
    all_findings = findings(evidence)
    lines = [HEAD, to_markdown(scales_table(records)), AFTER, *summary(evidence, all_findings)]
    lines += layers_section(all_findings)
    notes, figures = Notes(), dict[str, Figure]()
    # A study has a section where it says something that no study before it does.
    first = {(each.study.name, each.claim) for each in distinct(all_findings)}
    telling = [e for e in evidence if any((e.study.name, j.claim) in first for j in e.with_runs)]
    for _, own in groupby(telling, key=lambda each: each.study.name):
        lines += section(list(own), notes, figures)
    lines += [*other_phi(records), *lengths(records), *missing(records)]
    for figure in filter(None, (layers_figure(all_findings), share_figure(records))):
        figures[figure.name] = figure
    return "\n".join(lines).rstrip() + "\n", figures


class Notes:
    """Notes of tables, each given once: below the first table that needs it."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def markdown(self, table: Table) -> str:
        new = tuple(note for note in table.notes if note not in self._given)
        self._given.update(new)
        return to_markdown(replace(table, notes=new))


def section(evidence: Sequence[Evidence], notes: Notes, figures: dict[str, Figure]) -> list[str]:
    """A study: the tables of its scales, and the figures of the first, which has most to say."""
    study = evidence[0].study
    artefacts = ", ".join(study.artefacts)
    source = f"{artefacts} of the paper" if study.of_the_paper else artefacts
    lines = [f"## {study.title}", "", f"{sentence(source)}.", ""]
    for index, each in enumerate(evidence):
        lines += [f"### {study.name}, `{each.scale}` scale", "", *namesakes(each.groups)]
        if study.probe not in MAPPED:
            lines += [notes.markdown(paper_form(each.groups, study)), ""]
        remark = cut_down_label(each.groups)
        claims = verdict_table(each.with_runs, remark, claims_title(study))
        lines += [tally(each.with_runs), "", notes.markdown(claims), ""]
        if index or study.probe in MAPPED:
            continue
        own, *_ = by_stream(each.groups).values()
        drawn = [curves(own), per_task(own)] if len(own) <= LINES else []
        claims_figure = verdict_chart(each.with_runs, remark)
        drawn += [claims_figure] if claims_figure and not claims_figure.folded else []
        for figure in filter(None, drawn):
            name = f"{study.name}-{figure.name}"
            figures[name] = figure
            lines += [f"![{figure.title}](figures/{name}.svg)", ""]
    return lines


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


def namesakes(groups: Sequence[Group]) -> list[str]:
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


if __name__ == "__main__":
    main()
