"""Write docs/results.md, a page for each study in docs/evidence, every claim as CSV, the figures
that they show, and what README.md quotes, from the records in docs/results alone.

    python benchmarks/write_results.py

Every number and every verdict is computed; the words around them are in `results_page/page.md`.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import readme
from bntricks.paper import load_study
from bntricks.report.figures.figure import Figure
from bntricks.report.figures.lines import over_share
from bntricks.report.files import svg
from bntricks.report.groups import group, stream_title
from bntricks.report.records import load_records
from bntricks.report.tables.table import Cell, Table, to_markdown
from bntricks.runs.record import Record
from results_page.evidence import (
    STUDIES,
    Evidence,
    Finding,
    findings,
    gather,
    has_protocol,
    is_judged,
)
from results_page.fill import FINDINGS, against_layers, filled, interval, named
from results_page.forest import forest
from results_page.lengths import lengths
from results_page.scales import STREAM, scales_table
from results_page.studies import claims_csv, study_page

DOCS = Path(__file__).parents[1] / "docs"
INTERVALS = "Differences in points with their 95% intervals over seeds"
SHARED = ("as_published", "recalibrate")
"""Options in which runs that were probed for other φ may differ."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=DOCS, help="where pages and figures go")
    out = parser.parse_args().out
    records = load_records([DOCS / "results"])
    texts, figures = pages(records)
    drawn = {f"figures/{name}.svg": svg(figure) for name, figure in figures.items()}
    contents = {**{name: text.encode() for name, text in texts.items()}, **drawn}
    for name, content in contents.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
    for path in written_for_results(out):
        if path.relative_to(out).as_posix() not in contents:
            path.unlink()
    if out == DOCS:
        readme.put("results", quoted(findings(gather(records))))


def written_for_results(docs: Path) -> set[Path]:
    """The files of earlier pages."""
    names = (*STUDIES, "layers", "other-phi", "headlines")
    return {*docs.glob("evidence/*"), *(p for n in names for p in docs.glob(f"figures/{n}-*.svg"))}


def pages(records: Sequence[Record]) -> tuple[dict[str, str], dict[str, Figure]]:
    """The texts by file, and the figures by name."""
    evidence = gather(records)
    own = findings(evidence)
    texts, figures = {"evidence/claims.csv": claims_csv(own)}, overall(records, own)
    told = [e for e in evidence if e.with_runs or e.study.probe == "phi"]
    for name, each in groupby(told, key=lambda each: each.study.name):
        text, drawn = study_page(list(each))
        texts[f"evidence/{name}.md"] = text
        figures |= drawn
    if "evidence/pilot.md" in texts:
        texts["evidence/pilot.md"] += "\n".join(["", *lengths(records)]).rstrip() + "\n"
    texts["results.md"] = results(records, told, own, figures)
    return texts, figures


def results(
    records: Sequence[Record],
    evidence: Sequence[Evidence],
    own: Sequence[Finding],
    figures: Mapping[str, Figure],
) -> str:
    """The page that says it in two minutes."""
    names = dict.fromkeys(each.study.name for each in evidence)
    streams = dict.fromkeys(stream_title(group.stream) for e in evidence for group in e.groups)
    shown = {name: picture(f"{name}-differences", figures) for name in FINDINGS}
    return filled(
        evidence,
        own,
        scales=to_markdown(scales_table(records)),
        streams=", ".join(streams),
        pages=", ".join(f"[{name}](evidence/{name}.md)" for name in names),
        forest=picture("headlines-forest", figures),
        phi_share=shown["phi-share"],
        exemplars=shown["exemplars"],
        rehearsal=shown["rehearsal-free"],
    )


def picture(name: str, figures: Mapping[str, Figure]) -> str:
    """The place of a figure, if its runs are there."""
    if name not in figures:
        return "A figure of its claims comes with the runs: not run yet."
    return f"![{figures[name].title}](figures/{name}.svg)"


def overall(records: Sequence[Record], own: Sequence[Finding]) -> dict[str, Figure]:
    """The figures that are no study's: the headlines, other layers, other φ."""
    headlines = forest("headlines-forest", "Twelve claims", INTERVALS, named(own, "forest"))
    layers = forest(f"layers-{STREAM}", "BN Tricks over layers", INTERVALS, against_layers(own))
    return {f.name: f for f in (headlines, layers, share_figure(records)) if f is not None}


def share_figure(records: Sequence[Record]) -> Figure | None:
    """ACC over the newest task's share of φ, of runs at medium scale that were probed for it."""
    values = load_study("pilot").values("medium", STREAM)
    probed = [
        record
        for record in records
        if record.phi is not None
        and record.trained_as is None
        and record.stream == STREAM
        and not record.data.cut_down
        and has_protocol(record, values | record.config.model_dump(include={*SHARED}))
    ]
    figure = over_share(group(probed))
    return figure and replace(figure, name=f"other-phi-{STREAM}")


def quoted(own: Sequence[Finding]) -> str:
    """The table of README.md: what holds, with intervals."""
    rows = []
    for label, finding in named(own, "readme").items():
        judged = [(scale, each) for scale, each in finding.judgements if is_judged(each)]
        if not judged:
            continue
        ours = "; ".join(f"{j.ours:+.1f} ({interval(j)}), {scale}" for scale, j in judged)
        paper = judged[0][1].paper.mean
        papers = "–" if paper is None else f"{paper:+.1f}"
        rows.append((Cell(label), Cell(ours), Cell(papers), Cell(finding.verdict)))
    columns = ("Difference, in points", "Ours (95% interval)", "The paper's", "Verdict")
    return to_markdown(Table("", columns, tuple(rows))).partition("\n\n")[2].strip()


if __name__ == "__main__":
    main()
