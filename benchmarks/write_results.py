"""Write docs/results.md from the records in docs/results, and nothing else.

    python benchmarks/write_results.py

What is not there yet is listed with the command that runs it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bntricks.paper import Study, load_study
from bntricks.report.charts import Figure, curves, per_task
from bntricks.report.figures import svg, verdict_figure
from bntricks.report.records import load_records
from bntricks.report.results import results_table, verdict_table
from bntricks.report.statistics import mean, sd
from bntricks.report.tables import Table, number, to_markdown
from bntricks.report.verdicts import Row, verdicts
from bntricks.runs.record import Record

DOCS = Path(__file__).parents[1] / "docs"
STREAM = "seq-cifar10"
WANTED = {"pilot": 6, "ablation": 6, "main": 4}
"""Seeds of each study; the iCaRL half of the ablation has as many as the main study."""
FEW = ("icarl",)
EPOCHS = 40
"""Of the lite scale; runs of other lengths show how effects move with it."""
COMPARED = ("er", "er-cur+buf", "er-bnt")

HEAD = """# Results

What the paper claims, and what our runs say of it, on CIFAR-10 images at the `lite` scale: {data}
training and {tests} test images, shrunk to 16×16; a network of width 16 with one block a stage;
40 epochs, 2,520 steps a task; a memory of 200. The paper trains a ResNet-18 of width 64 on 50,000
images of 32×32 for 15,650 steps a task with a memory of 500. So accuracies are not comparable
with the paper's; differences between methods at the same protocol are what is judged. Effects of
φ need a network that has converged, and this one is small and trains a sixth as long: where a
claim does not hold here, it may be the scale.

This page is written from the records in `docs/results/` by `python benchmarks/write_results.py`.
`bnt study` reuses them, so what is missing can be added run by run.
"""

LENGTHS = f"""## How effects move with training length

The same protocol, with fewer and more epochs a task. The paper trains 15,650 steps a task, and has
er-cur+buf 5.2 and er-bnt 10.5 points of ACC above er; the last two columns say whether longer
training moves ours towards that. Of each length wanted are {", ".join(COMPARED)}, with seeds 0 and
1 at least:

    bnt run --method er --epochs 10 --seed 0 --stream seq-cifar10 --image-size 16 \\
        --width 16 --blocks 1 --memory 200 --data DIR --out docs/results
"""


def main() -> None:
    records = load_records([DOCS / "results"])
    data = records[0]["data"]["images"]
    text = [HEAD.format(data=f"{data['train']:,}", tests=f"{data['test']:,}")]
    usual = [record for record in records if record["config"]["epochs"] == EPOCHS]
    for name in WANTED:
        text += section(load_study(name), usual)
    text += lengths(records)
    (DOCS / "results.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


def section(study: Study, records: list[Record]) -> list[str]:
    own = [r for r in records if r["method"] in study.methods and r["stream"] == STREAM]
    lines = [f"## {study.title}", "", f"{', '.join(study.artefacts)} of the paper."]
    lines += [*missing(study, own), *namesakes(own), ""]
    if not own:
        return lines
    rows = [row for row in verdicts(study, "lite", own) if row.ours is not None]
    lines += [to_markdown(results_table(own, study, "lite")), ""]
    if rows:
        lines += [tally(rows), "", to_markdown(verdict_table(rows, own)), ""]
    for figure in (curves(own), per_task(own), verdict_figure(rows, own)):
        if figure is not None:
            lines += [picture(study, figure), ""]
    return lines


def tally(rows: Sequence[Row]) -> str:
    """How many claims hold, in a sentence."""
    counts = Counter(row.verdict for row in rows)
    words = {"holds": "hold", "does not hold": "do not hold", "undecided": "are undecided"}
    some = [f"{counts[verdict]} {word}" for verdict, word in words.items() if counts[verdict]]
    return f"Of {len(rows)} claims with runs on both sides, {', '.join(some)}."


def lengths(records: list[Record]) -> list[str]:
    """The same runs, trained for a shorter and a longer time."""
    rows = []
    for epochs in sorted({record["config"]["epochs"] for record in records}):
        found = {(r["method"], r["seed"]): r for r in records if r["config"]["epochs"] == epochs}
        seeds = [
            seed
            for seed in sorted({seed for _, seed in found})
            if all((method, seed) in found for method in COMPARED)
        ]
        if not seeds:
            continue
        runs = {method: [found[method, seed] for seed in seeds] for method in COMPARED}
        cells = [
            number(mean(values), 1, sd=sd(values))
            for metric in ("acc", "bwt")
            for values in ([run[metric] for run in some] for some in runs.values())
        ]
        for method in COMPARED[1:]:
            pairs = zip(runs[method], runs["er"], strict=True)
            gains = [one["acc"] - other["acc"] for one, other in pairs]
            cells.append(number(mean(gains), 1, sd=sd(gains)))
        steps = runs["er"][0]["steps"] // len(runs["er"][0]["accuracy"])
        rows.append((number(epochs, 0), number(steps, 0), *cells, number(len(seeds), 0)))
    if not rows:
        return []
    columns = [f"{metric} of {method}" for metric in ("ACC", "BWT") for method in COMPARED]
    columns += [f"ACC: {method} − er" for method in COMPARED[1:]]
    table = Table(
        "Training length",
        ("Epochs", "Steps a task", *columns, "Seeds"),
        tuple(rows),
        ("Mean ± standard deviation over the seeds that all three methods have.",),
    )
    return [LENGTHS, to_markdown(table), ""]


def missing(study: Study, records: list[Record]) -> list[str]:
    """What was not run yet, and how to run it."""
    seeds = {
        method: WANTED["main"] if method.startswith(FEW) else WANTED[study.name]
        for method in study.methods
    }
    there = {(r["method"], r["seed"]) for r in records}
    left = {m: [s for s in range(n) if (m, s) not in there] for m, n in seeds.items()}
    left = {method: some for method, some in left.items() if some}
    if not left:
        return ["", "Complete."]
    listed = "; ".join(f"{m} (seeds {', '.join(map(str, some))})" for m, some in left.items())
    commands = [
        f"    bnt study {study.name} --scale lite --streams {STREAM} --seeds {count} \\\n"
        f"        --methods {' '.join(m for m in left if seeds[m] == count)} \\\n"
        "        --data DIR --out docs/results"
        for count in sorted({seeds[method] for method in left}, reverse=True)
    ]
    return ["", f"Not yet run: {listed}.", "", *commands]


def namesakes(records: list[Record]) -> list[str]:
    """What was trained under another name of the same recipe."""
    pairs = sorted({(r["method"], r["trained_as"]) for r in records if "trained_as" in r})
    lines = []
    for method, trained in pairs:
        some = [r["seed"] for r in records if r["method"] == method and "trained_as" in r]
        seeds = ", ".join(map(str, sorted(some)))
        lines += [
            "",
            f"{method} is the recipe of {trained}; its seeds {seeds} are that one's runs.",
        ]
    return lines


def picture(study: Study, figure: Figure) -> str:
    path = DOCS / "figures" / f"{study.name}-{figure.name}.svg"
    path.write_bytes(svg(figure))
    return f"![{figure.title}](figures/{path.name})"


if __name__ == "__main__":
    sys.exit(main())
