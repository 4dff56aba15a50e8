"""`bnt methods`, `bnt norms` and `bnt streams`: lists of what can be chosen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bntricks.cli import console
from bntricks.cli.app import Imports, Json, Switch, app, flag, import_all
from bntricks.cli.printing import print_json
from bntricks.runs.config import Config

if TYPE_CHECKING:
    from bntricks.methods import Entry


@app.command
def methods(
    *,
    recipes: Switch = False,
    json: Json = False,
    markdown: Switch = False,
    imports: Imports = (),
) -> None:
    """List every method: what it is, and whose.

    Examples:

    - `bnt methods --recipes`

    Parameters
    ----------
    recipes
        Show recipes instead: the columns of the paper's ablation table, and hyper-parameters.
    json
        Print all of it as an array of objects.
    markdown
        Print a Markdown table instead.
    """
    from bntricks.methods import entries

    import_all(imports)
    listed = entries().values()
    if json:
        print_json(
            [
                {"name": entry.name, "title": entry.title, "summary": entry.summary}
                | {"source": entry.source or None}
                | {**entry.factory().columns(), "hyper": entry.hyper()}
                for entry in listed
            ]
        )
        return
    header, notes = ["name", "what it is", "whose"], RECIPES
    rows = [[entry.name, entry.summary, entry.source or "–"] for entry in listed]
    if recipes:
        share = "new share of φ"
        header = ["name", "EMA", "model parameters", "forwards", share, "memory"]
        header, notes = [*header, "hyper-parameters"], COLUMNS
        rows = [_recipe(entry) for entry in listed]
    if markdown:
        console.say(console.markdown(header, rows))
        return
    console.show(header, rows)
    console.out.print(notes)


RECIPES = "\nbnt methods --recipes shows how each moves φ and θ, and its hyper-parameters."
COLUMNS = (
    "\nEMA: the batch that moves the running statistics; / means every forward does."
    "\nForwards are per step, once there is something in memory. --json shows more."
    "\nNew share of φ: how much of the running statistics is the newest task's, as task 5 ends."
)


def _recipe(entry: Entry) -> list[str]:
    columns = entry.factory().columns()
    share = columns["new_share_of_phi"]
    return [
        entry.name,
        str(columns["ema"]),
        str(columns["parameters"]),
        _forwards(columns),
        f"{share:.2f}" if isinstance(share, float) else "–",
        str(columns["memory"]),
        " ".join(f"--{name} {value:g}" for name, value in entry.hyper().items()) or "none",
    ]


@app.command
def norms(
    *,
    json: Json = False,
    markdown: Switch = False,
    picture: Path | None = None,
    imports: Imports = (),
) -> None:
    """List what can normalise a network, with its formula.

    Parameters
    ----------
    json
        Print an array of objects instead.
    markdown
        Print a Markdown table instead.
    picture
        Instead, draw which values share their statistics into this SVG file.
    """
    from bntricks.networks.norms import NORMS, describe, knobs, summary, use_of_phi

    import_all(imports)
    if picture is not None:
        _draw(picture)
        return
    rows: list[dict[str, Any]] = []
    for name in sorted(NORMS.entries(), key=lambda name: (name != "bn", name)):
        scheme = describe(name)
        rows.append(
            {
                "name": name,
                "title": scheme.title,
                "summary": summary(name),
                "formula": scheme.formula,
                "shares": scheme.shares,
                "phi": use_of_phi(name),
                "knobs": {k: v for k, v in knobs(name).items() if k in Config.options(of="norm")},
                "cost": scheme.cost,
            }
        )
    if json:
        print_json(rows)
        return
    header = ["name", "normalised together", "formula", "φ in training", "knobs", "cost"]
    cells = [
        [
            row["name"],
            row["shares"],
            row["formula"],
            row["phi"],
            " ".join(map(_knob, row["knobs"].items())) or "none",
            row["cost"],
        ]
        for row in rows
    ]
    if markdown:
        console.say(console.markdown(header, cells))
        return
    console.show(header, cells)
    console.out.print(
        "\nγ and β are learned for each channel. In evaluation, what has a φ is normalised by it."
        "\nIn a clone, `make bench ARGS=--norms` measures what they cost on this machine."
    )


def _draw(path: Path) -> None:
    from bntricks.files import commit, write_errors
    from bntricks.report.diagrams.drawing import fixed

    with write_errors(path):
        commit({path: fixed("norms").encode()})
    print(f"written to {path}")


def _knob(knob: tuple[str, Any]) -> str:
    name, default = knob
    return flag(name) if default is None else f"{flag(name)} {default:g}"


@app.command
def streams(*, json: Json = False, imports: Imports = ()) -> None:
    """List every stream of tasks that can be learned.

    Parameters
    ----------
    json
        Print an array of objects instead.
    """
    from dataclasses import asdict

    from bntricks.streams import STREAMS
    from bntricks.streams.registry import OPENERS

    import_all(imports)
    OPENERS.entries()  # those of installed packages too
    rows = [asdict(info) for info in STREAMS.values()]
    if json:
        print_json(rows)
        return
    console.show(list(rows[0]), [[_shown(value) for value in row.values()] for row in rows])


def _shown(value: object) -> object:
    """Write a dash for nothing, and both numbers of a pair."""
    if isinstance(value, tuple):
        return " + ".join(map(str, value))
    return "–" if value is None else value


def _forwards(columns: dict[str, str | float | None]) -> str:
    """Count the passes of a step: with gradients; tracking; of the teacher; of the projection."""
    extra = {what: columns[f"{what}_forwards"] for what in ("tracking", "teacher", "projection")}
    parts = [f"{count} {what}" for what, count in extra.items() if str(count) != "0"]
    return " + ".join([str(columns["forwards"]), *parts])
