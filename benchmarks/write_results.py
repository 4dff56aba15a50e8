"""Write docs/results.md from the records in docs/results, and nothing else.

    python benchmarks/write_results.py

What is not there yet is listed with the command that runs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bntricks.paper import Study, load_study
from bntricks.report.build import build
from bntricks.report.charts import Figure, verdict_chart
from bntricks.report.files import svg
from bntricks.report.groups import cut_down_label
from bntricks.report.records import load_records
from bntricks.report.results import verdict_table
from bntricks.report.statistics import mean, sd
from bntricks.report.tables import Table, number, to_markdown
from bntricks.report.verdicts import Judgement
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
    # Runs on all of CIFAR-10 are of a larger scale, which has too few runs to be judged yet.
    records = [record for record in load_records([DOCS / "results"]) if record.data.cut_down]
    images = records[0].data.images
    text = [HEAD.format(data=f"{images['train']:,}", tests=f"{images['test']:,}")]
    usual = [record for record in records if record.config.epochs == EPOCHS]
    for name in WANTED:
        text += section(load_study(name), usual)
    text += lengths(records)
    (DOCS / "results.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


def section(study: Study, records: list[Record]) -> list[str]:
    own = [r for r in records if r.method in study.methods and r.stream == STREAM]
    lines = [f"## {study.title}", "", f"{', '.join(study.artefacts)} of the paper."]
    lines += [*missing(study, own), *namesakes(own), ""]
    if not own:
        return lines
    report = build(own, study, "lite")
    lines += [to_markdown(report.results), ""]
    remark = cut_down_label(report.groups)
    judged = [judgement for judgement in report.verdicts if judgement.ours is not None]
    if judged:
        lines += [tally(judged), "", to_markdown(verdict_table(judged, remark)), ""]
    curves, per_task, *_ = report.streams[0].figures
    for figure in (curves, per_task, verdict_chart(judged, remark)):
        if figure is not None:
            lines += [picture(study, figure), ""]
    return lines


def tally(judgements: Sequence[Judgement]) -> str:
    """How many claims hold, in a sentence."""
    counts: Counter[str] = Counter(judgement.verdict for judgement in judgements)
    words = {"holds": "hold", "does not hold": "do not hold", "undecided": "are undecided"}
    parts = [f"{counts[verdict]} {word}" for verdict, word in words.items() if counts[verdict]]
    return f"Of {len(judgements)} claims with runs on both sides, {', '.join(parts)}."


def lengths(records: list[Record]) -> list[str]:
    """The same runs, trained for a shorter and a longer time."""
    rows = []
    for epochs in sorted({record.config.epochs for record in records}):
        by_run = {(r.method, r.seed): r for r in records if r.config.epochs == epochs}
        seeds = [
            seed
            for seed in sorted({seed for _, seed in by_run})
            if all((method, seed) in by_run for method in COMPARED)
        ]
        if not seeds:
            continue
        runs = {method: [by_run[method, seed] for seed in seeds] for method in COMPARED}
        cells = [
            number(mean(values), 1, sd=sd(values))
            for metric in ("acc", "bwt")
            for values in ([run.metrics[metric] for run in own] for own in runs.values())
        ]
        for method in COMPARED[1:]:
            gains = [a.acc - b.acc for a, b in zip(runs[method], runs["er"], strict=True)]
            cells.append(number(mean(gains), 1, sd=sd(gains)))
        steps = runs["er"][0].steps // len(runs["er"][0].accuracy)
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
    present = {(r.method, r.seed) for r in records}
    absent = {m: [s for s in range(n) if (m, s) not in present] for m, n in seeds.items()}
    absent = {method: own for method, own in absent.items() if own}
    if not absent:
        return ["", "Complete."]
    listed = "; ".join(f"{m} (seeds {', '.join(map(str, own))})" for m, own in absent.items())
    commands = [
        f"    bnt study {study.name} --scale lite --streams {STREAM} --seeds {count} \\\n"
        f"        --methods {' '.join(m for m in absent if seeds[m] == count)} \\\n"
        "        --data DIR --out docs/results"
        for count in sorted({seeds[method] for method in absent}, reverse=True)
    ]
    return ["", f"Not yet run: {listed}.", "", *commands]


def namesakes(records: list[Record]) -> list[str]:
    """What was trained under another name of the same recipe."""
    borrowed = [r for r in records if r.trained_as is not None]
    lines = []
    for method, trained_as in sorted({(r.method, str(r.trained_as)) for r in borrowed}):
        own = [r.seed for r in borrowed if r.method == method]
        seeds = ", ".join(map(str, sorted(own)))
        lines += [
            "",
            f"{method} is the recipe of {trained_as}; its seeds {seeds} are that one's runs.",
        ]
    return lines


def picture(study: Study, figure: Figure) -> str:
    path = DOCS / "figures" / f"{study.name}-{figure.name}.svg"
    path.write_bytes(svg(figure))
    return f"![{figure.title}](figures/{path.name})"


if __name__ == "__main__":
    main()
