"""`bnt methods`, `bnt norms` and `bnt streams`: lists of what can be chosen."""

from pathlib import Path
from typing import Any

from bntricks.cli import console
from bntricks.cli.app import Imports, Json, Switch, app, flag, import_all
from bntricks.cli.printing import print_json
from bntricks.runs.config import Config


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
    found: list[dict[str, Any]] = [
        {"name": entry.name, "title": entry.title, "summary": entry.summary}
        | {"source": entry.source or None, **entry.factory().columns(), "hyper": entry.hyper()}
        for entry in entries().values()
    ]
    header, notes = ["name", "what it is", "whose"], RECIPES
    rows = [[each["name"], each["summary"], each["source"] or "–"] for each in found]
    if recipes:
        header, notes = ["name", "EMA", "model parameters", "forwards", "new share of φ"], COLUMNS
        header += ["memory", "hyper-parameters"]
        rows = [_recipe(each) for each in found]
    _show(found, header, rows, notes, json=json, markdown=markdown)


RECIPES = "bnt methods --recipes shows how each moves φ and θ, and its hyper-parameters."
COLUMNS = """EMA: the batch that moves the running statistics; / means every forward does.
Forwards are per step, once there is something in memory. --json shows more.
New share of φ: how much of the running statistics is the newest task's, as task 5 ends."""


def _recipe(of: dict[str, Any]) -> list[str]:
    share = "–" if of["new_share_of_phi"] is None else f"{of['new_share_of_phi']:.2f}"
    hyper = " ".join(f"--{name} {value:g}" for name, value in of["hyper"].items()) or "none"
    return [of["name"], of["ema"], of["parameters"], _forwards(of), share, of["memory"], hyper]


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
    found: list[dict[str, Any]] = []
    for name in sorted(NORMS.entries(), key=lambda name: (name != "bn", name)):
        scheme, own = describe(name), Config.options(of="norm")
        found.append(
            {
                "name": name,
                "title": scheme.title,
                "summary": summary(name),
                "formula": scheme.formula,
                "shares": scheme.shares,
                "phi": use_of_phi(name),
                "knobs": {knob: value for knob, value in knobs(name).items() if knob in own},
                "cost": scheme.cost,
            }
        )
    header = ["name", "normalised together", "formula", "φ in training", "knobs", "cost"]
    rows = [
        [
            *(of[key] for key in ("name", "shares", "formula", "phi")),
            _knobs(of["knobs"]),
            of["cost"],
        ]
        for of in found
    ]
    _show(found, header, rows, FORMULAS, json=json, markdown=markdown)


FORMULAS = """γ and β are learned for each channel. In evaluation, what has a φ is normalised by it.
In a clone, `make bench ARGS=--norms` measures what they cost on this machine."""


def _draw(path: Path) -> None:
    from bntricks.files import commit, write_errors
    from bntricks.report.diagrams.drawing import fixed

    with write_errors(path):
        commit({path: fixed("norms").encode()})
    print(f"written to {path}")


def _knobs(knobs: dict[str, Any]) -> str:
    return " ".join(flag(k) + ("" if v is None else f" {v:g}") for k, v in knobs.items()) or "none"


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
    found = [asdict(info) for info in STREAMS.values()]
    rows = [[_shown(value) for value in each.values()] for each in found]
    _show(found, list(found[0]), rows, json=json)


def _show(
    found: list[dict[str, Any]],
    header: list[str],
    rows: list[list[Any]],
    notes: str = "",
    *,
    json: bool,
    markdown: bool = False,
) -> None:
    """Print what was found, in the form that was asked for."""
    if json:
        print_json(found)
    elif markdown:
        console.say(console.markdown(header, rows))
    else:
        console.show(header, rows)
        if notes:
            console.say(f"\n{notes}")


def _shown(value: object) -> object:
    """Write a dash for nothing, and both numbers of a pair."""
    if isinstance(value, tuple):
        return " + ".join(map(str, value))
    return "–" if value is None else value


def _forwards(columns: dict[str, Any]) -> str:
    """Count the passes of a step: with gradients; tracking; of the teacher; of the projection."""
    extra = {what: columns[f"{what}_forwards"] for what in ("tracking", "teacher", "projection")}
    parts = [f"{count} {what}" for what, count in extra.items() if str(count) != "0"]
    return " + ".join([str(columns["forwards"]), *parts])
