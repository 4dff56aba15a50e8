"""Make the pictures and outputs of the pages for readers who begin, by the commands that they show.

    python benchmarks/write_pictures.py

The commands print into docs/getting-started.md and docs/your-model.md, and draw into docs/figures;
the reports are of the demo's records, in docs/demo, and of docs/teaching. Takes two minutes; the
package of efficientnet-lite0 is needed.
"""

from __future__ import annotations

import base64
import json
import runpy
import shutil
import subprocess
import sys
from contextlib import chdir, redirect_stdout
from html import escape
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any

import altair as alt

import readme
from bntricks.doctor.charts import accuracies
from bntricks.report.figures.figure import COLOURS, WIDTH, Figure
from bntricks.report.figures.looks import DARK, INK, PAPER
from bntricks.report.files import svg
from bntricks.report.statistics import estimate

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FIGURES = DOCS / "figures"
RUN = "bnt run --method er-bnt --stream seq-digits --image-size 16 --width 8 --epochs 20"
LESSONS = (
    "bnt learn clothes/first --into clothes.safetensors --backbone efficientnet-lite0 "
    "--image-size 64",
    "bnt learn clothes/second --into clothes.safetensors",
)
PREDICT = "bnt predict clothes.safetensors clothes/wardrobe"
TITLES = {
    "seq-cifar10": "photographs",
    "seq-fashion": "clothes",
    "seq-tiny-imagenet": "many classes",
}


def main() -> None:
    with TemporaryDirectory() as folder, chdir(folder):
        put("getting-started", "run", RUN)
        bnt(f"bnt report {DOCS / 'demo'} --out report")
        shutil.copyfile("report/figures/curves-seq-fashion.svg", FIGURES / "report-curves.svg")
        subprocess.run([sys.executable, ROOT / "examples" / "clothes.py"], check=True)
        put("your-model", "lessons", *LESSONS)
        wardrobe = drawn_answers(json.loads(bnt(f"{PREDICT} --json")))
        (FIGURES / "wardrobe.svg").write_text(wardrobe, encoding="utf-8")
    draw("doctor", accuracies(diagnosis()))
    choices = json.loads((DOCS / "teaching" / "choices.json").read_text(encoding="utf-8"))
    draw("teaching", worth(choices))


def bnt(command: str) -> str:
    words = [sys.executable, "-m", "bntricks", *command.split()[1:]]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


def put(page: str, part: str, *commands: str) -> None:
    """Have the last of these commands, and what it prints, on a page."""
    *_, printed = map(bnt, commands)
    lines = "\n".join(line.rstrip() for line in printed.splitlines())
    readme.put(part, indent(lines, "    "), DOCS / f"{page}.md")


def draw(name: str, figure: Figure) -> None:
    (FIGURES / f"{name}.svg").write_bytes(svg(figure))


def diagnosis() -> Any:
    """What examples/diagnose_a_model.py finds."""
    with redirect_stdout(StringIO()):
        return runpy.run_path(str(ROOT / "examples" / "diagnose_a_model.py"))["diagnosis"]


def drawn_answers(answers: list[dict[str, Any]]) -> str:
    """The images with what the model takes them for, a column a class."""
    columns, side, step = len({Path(each["path"]).stem.split("-")[0] for each in answers}), 84, 120
    rows = len(answers) // columns
    parts = []
    for place, each in enumerate(answers):
        x, y = step * (place // rows) + (step - side) // 2, step * (place % rows) + 4
        image = base64.b64encode(Path(each["path"]).read_bytes()).decode()
        words = escape(f"{each['label']} {100 * each['probability']:.0f}%")
        parts.append(
            f'<image x="{x}" y="{y}" width="{side}" height="{side}" image-rendering="pixelated" '
            f'href="data:image/png;base64,{image}"/>'
            f'<text x="{x + side // 2}" y="{y + side + 16}">{words}</text>'
        )
    size = f"{step * columns} {step * rows}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{step * columns}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="13" fill="{INK}" '
        f'text-anchor="middle">{DARK}<rect width="100%" height="100%" fill="{PAPER}"/>'
        f"{''.join(parts)}</svg>\n"
    )


def worth(choices: dict[str, dict[str, dict[str, list[float]]]]) -> Figure:
    """What accuracy after four folders loses if one thing of the recipe is changed."""
    rows = [
        {"choice": choice, "images": TITLES[stream]} | points(by_seed, own["the recipe"])
        for stream, own in choices.items()
        for choice, by_seed in own.items()
        if choice != "the recipe"
    ]
    base = alt.Chart(alt.NamedData("rows")).encode(
        y=alt.Y("choice:N", title=None, sort=None, axis=alt.Axis(labelLimit=0, grid=True)),
        yOffset=alt.YOffset("images:N", sort=list(TITLES.values())),
        color=alt.Color(
            "images:N",
            title=None,
            sort=list(TITLES.values()),
            scale=alt.Scale(domain=list(TITLES.values()), range=list(COLOURS[:3])),
        ),
    )
    change = "points that accuracy after four folders changes by"
    zero = alt.Chart(alt.InlineData(values=[{}])).mark_rule(strokeDash=[3, 3])
    line = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=change), x2="high:Q")
    dot = base.mark_point(filled=True, size=60, opacity=1).encode(x="mean:Q")
    chart = (zero.encode(x=alt.datum(0)) + line + dot).properties(
        width=WIDTH * 0.75, height=alt.Step(14), datasets={"rows": rows}
    )
    return Figure("teaching", "What each choice is worth", "", chart, rows)


def points(by_seed: dict[str, list[float]], recipe: dict[str, list[float]]) -> dict[str, Any]:
    gain = estimate([values[-1] - recipe[seed][-1] for seed, values in by_seed.items()])
    return {"mean": gain.mean, "low": gain.low, "high": gain.high}


if __name__ == "__main__":
    main()
