"""`bnt demo`: what BatchNorm costs replay, and what BN Tricks gains, on embedded images.

The configuration was chosen, on other seeds, so that the paper's effect shows in minutes on two
cores. Each task but the first brings a kind of top that looks like those before it, so that new
classes compete with old ones; the memory is small, because with a large one plain replay has
nothing left to lose, but has some images of every class; there are some hundred steps a task,
because φ matters only once the network has settled; and batches are even and the rate falls within
a task, because a step on a handful of images is a matter of luck, and so are the last steps of a
rate that stays high. In the data set's own order of classes, where fewer tasks bring such a top,
the gain is smaller: the demo says so beside its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from html import escape
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from bntricks.cli import console
from bntricks.cli.app import Count, Json, Seeds, Switch, app
from bntricks.cli.printing import print_json, raise_failures, spread
from bntricks.runs.config import Config

if TYPE_CHECKING:
    from bntricks.report.build import Report
    from bntricks.report.comparison import Comparison
    from bntricks.runs.record import Record

STREAM = "seq-fashion"
METHODS = ("sgd", "er", "er-bnt", "joint")
COMPARED = ("er-bnt", "er")
SEEDS_OF_BOUNDS = 2
"""SGD and Joint only show how far down and up it goes: where they are is plain after two seeds."""
METRICS = ("acc", "bwt")
ORDER = "0,1,2,5,3,7,4,8,6,9"
"""T-shirt and trouser, pullover and sandal, dress and sneaker, coat and bag, shirt and boot."""
GAIN_IN_OWN_ORDER = "ACC +1.8 (95% interval 0.7 to 3.0), BWT +9.8 (95% interval 7.9 to 11.7)"
"""What `bnt demo --own-order` printed. `benchmarks/write_demo.py` checks it."""
CHOSEN_ORDER = (
    "The class order was chosen so that new classes look like old ones. In the data set's own "
    f"order (bnt demo --own-order) the gain over 5 seeds was {GAIN_IN_OWN_ORDER}."
)
OWN_ORDER = "The classes came in the data set's own order."
MEMORY = 100
QUESTION = (
    "A small network learned ten kinds of clothing, two at a time, and could keep "
    f"{MEMORY} old images to replay: what does it still know of the old ones in the end?"
)
TASKS = "The tasks, in the order they were learned; the network saw them at 14 pixels a side."
PICTURES = 2
"""Shown of each class."""


@app.command
def demo(
    *,
    quick: Switch = False,
    seeds: Seeds = 5,
    own_order: Switch = False,
    workers: Count | None = None,
    out: Path = Path("runs"),
    json: Json = False,
) -> None:
    """Compare four methods on images that come with the package.

    They are SGD, ER, ER-BNT and Joint; nothing is downloaded. Takes some four minutes on two cores.
    Runs that are already there are not trained again, so an interrupted demo continues where it
    stopped.

    Parameters
    ----------
    quick
        Train just long enough for everything to run once: too short to show the effect.
    seeds
        Repetitions of ER and ER-BNT; the table shows their mean and standard deviation. SGD and
        Joint are repeated twice at most.
    own_order
        Learn the classes in the data set's own order. By default each task but the first brings a
        top that looks like earlier ones, which makes the effect larger.
    workers
        Runs at the same time [default: one per core].
    out
        Where runs are written, each in a folder of its own.
    json
        Print the table as one JSON object.
    """
    from bntricks.cli.training import board
    from bntricks.runs.request import Request
    from bntricks.streams.sources.fashion import EMBEDDED
    from bntricks.sweeps.local import Failure, sweep

    configs = plan(seeds=seeds, quick=quick, own_order=own_order)
    with board(configs) as sink:
        # Whatever else is in BNT_DATA: a demo's numbers are those of the embedded images.
        request = Request(data=EMBEDDED, out=out, probe="phi")
        results = sweep(configs, request, workers=workers, sink=sink)
    records = [result for result in results if not isinstance(result, Failure)]
    note = "too short to show the effect; run without --quick" if quick else None
    if json:
        gains = comparison(records)
        sides = dict(zip(("method", "other"), COMPARED, strict=True))  # as in the rows
        found = {"rows": summary(records), "gains": gains and asdict(gains) | sides}
        order = {"class_order": configs[0].class_order}
        print_json({**found, **order, "note": note, "path": str(out)})
    elif records:
        show(records, out, note)
    raise_failures(results)


def plan(*, seeds: int, quick: bool, own_order: bool = False) -> list[Config]:
    """List the runs, seeds outermost, so that early results already compare."""
    return [
        Config(
            method=method,
            stream=STREAM,
            seed=seed,
            image_size=14,
            images_per_class=64 if quick else None,
            width=4 if quick else 8,
            blocks=1,
            stages=3,
            class_order=None if own_order else ORDER,
            even_batches=True,
            schedule="cosine",
            memory=MEMORY,
            epochs=3 if quick else 30,
        )
        for seed in range(seeds)
        for method in METHODS
        if method in COMPARED or seed < SEEDS_OF_BOUNDS
    ]


def summary(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Compute mean and sample standard deviation over seeds, one row per method."""
    by_method: dict[str, list[Record]] = {}
    for record in records:
        by_method.setdefault(record.method, []).append(record)
    return [
        {
            "method": method,
            "seeds": len(runs),
            "acc": _mean_and_sd([record.acc for record in runs]),
            "bwt": _mean_and_sd([record.bwt for record in runs]),
            "forwards_per_step": mean(record.forwards_per_step for record in runs),
        }
        for method, runs in by_method.items()
    ]


def comparison(records: Sequence[Record]) -> Comparison | None:
    """Compare BN Tricks with plain replay, if both were trained."""
    from bntricks.report.comparison import compare
    from bntricks.report.groups import group

    groups = {each.method: each for each in group(records)}
    if not all(method in groups for method in COMPARED):
        return None
    return compare(groups[COMPARED[0]], groups[COMPARED[1]], METRICS)


def show(records: Sequence[Record], out: Path, note: str | None) -> None:
    """Print the table and the conclusion, and write the page."""
    rows = summary(records)
    cells = [
        [
            r["method"],
            r["seeds"],
            spread(r["acc"]),
            spread(r["bwt"]),
            f"{r['forwards_per_step']:.2f}",
        ]
        for r in rows
    ]
    title = f"{STREAM}, mean ± standard deviation"
    console.show(["method", "seeds", "ACC", "BWT", "forwards/step"], cells, title=title)
    gains = comparison(records)
    if gains is not None:
        console.say(f"\n{gains}\n{about_order(records)}")
    page = write_page(records, gains, out)
    if note:
        console.say(f"({note})")
    console.say(f"results in {out}/, page written to {page}")


def write_page(records: Sequence[Record], gains: Comparison | None, out: Path) -> Path:
    """Write the report, with the outcome, the images and the explorer before it."""
    from bntricks.report.build import build
    from bntricks.report.comparison import old_and_new
    from bntricks.report.explorer.page import section
    from bntricks.report.explorer.scenes import scenes
    from bntricks.report.files import write
    from bntricks.report.page.html import Section, figure_html

    command = "bnt demo" if in_chosen_order(records) else "bnt demo --own-order"
    report = build(records, title="bntricks demo", command=command)
    if gains is not None:
        title, found = answer(report)
        report = replace(report, title=title, summary=f"{QUESTION} {found}")
    opening = []
    if any(record.phi and record.phi.by_share for record in records):
        explorer = section(scenes(records), "Move the statistics")
        shown = strip_html(records[0].config)
        shown += f'<p class="note">{escape(f"{TASKS} {about_order(records)}")}</p>'
        opening.append(replace(explorer, content=shown + explorer.content))
    picture = old_and_new(sorted(report.groups, key=lambda each: METHODS.index(each.method)))
    opening.append(Section("old-and-new-section", "Old and new classes", figure_html(picture)))
    return write(report, out, opening, [picture])


def answer(report: Report) -> tuple[str, str]:
    """Say the outcome as a title and in sentences, computed from the runs."""
    from bntricks.report.comparison import compare

    own, other = (next(g for g in report.groups if g.method == name) for name in COMPARED)
    [gain] = compare(own, other, ["previous"]).gains
    points, seeds = gain.difference.mean or 0.0, gain.difference.n
    more = f"{abs(points):.0f} points {'more' if points > 0 else 'fewer'} on old classes"
    title = f"Same memory, {more}" if gain.sign else "Same memory, and no difference shown"
    interval, low, high = "one seed has no interval", gain.difference.low, gain.difference.high
    if low is not None and high is not None:
        interval = f"95% interval {low:.1f} to {high:.1f}, {seeds} seeds"
    known = [[mean(g.values(m)) for g in (other, own)] for m in ("previous", "last_task")]
    (er, bnt), (er_newest, bnt_newest) = known
    return title, (
        f"Plain replay (ER) recognises {er:.0f}% of the old classes; with BN Tricks (ER-BNT), "
        f"which only changes how BatchNorm is used, it is {bnt:.0f}% ({points:+.1f} points; "
        f"{interval}). Of the newest classes it is {er_newest:.0f}% and {bnt_newest:.0f}%."
    )


def strip_html(config: Config) -> str:
    """Render some images of each task."""
    from bntricks.runs.probes.tsne import picture
    from bntricks.runs.resolve import resolve
    from bntricks.streams.sources.fashion import EMBEDDED

    stream, _ = resolve(config.model_copy(update={"image_size": None}), EMBEDDED)
    parts = []
    for number, task in enumerate(stream, start=1):
        names = " and ".join(stream.class_names[label] for label in task.classes)
        x = [task.train.x[task.train.y == label][:PICTURES] for label in task.classes]
        images = "".join(f'<img alt="" src="{picture(image)}">' for own in x for image in own)
        parts.append(f"<li>{images}<span>{number}. {escape(names)}</span></li>")
    return f'<ol class="strip">{"".join(parts)}</ol>'


def about_order(records: Sequence[Record]) -> str:
    """Name the order of the classes, and the gain in the other order."""
    return CHOSEN_ORDER if in_chosen_order(records) else OWN_ORDER


def in_chosen_order(records: Sequence[Record]) -> bool:
    return all(record.config.class_order == ORDER for record in records)


def _mean_and_sd(values: list[float | None]) -> dict[str, float | None] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": mean(known), "sd": stdev(known) if len(known) > 1 else None}
