"""`bnt methods` and `bnt streams`: what there is to choose from."""

from __future__ import annotations

from bntricks.cli import console
from bntricks.cli.app import Json, Switch, app
from bntricks.cli.printing import print_json


@app.command
def methods(*, json: Json = False, markdown: Switch = False) -> None:
    """List every method with its recipe: the columns of the paper's ablation table.

    Parameters
    ----------
    json
        Print an array of objects instead.
    markdown
        Print a Markdown table instead.
    """
    from bntricks.methods import entries

    recipes = [(entry, entry.factory().columns()) for entry in entries().values()]
    if json:
        print_json(
            [
                {
                    "name": entry.name,
                    "title": entry.title,
                    "summary": entry.summary,
                    **columns,
                    "hyper": entry.hyper(),
                }
                for entry, columns in recipes
            ]
        )
        return
    rows = [
        [
            entry.name,
            columns["ema"],
            columns["parameters"],
            _forwards(columns),
            _share(columns["new_share_of_phi"]),
            columns["memory"],
            " ".join(f"--{name} {value:g}" for name, value in entry.hyper().items()) or "none",
        ]
        for entry, columns in recipes
    ]
    share = "new share of φ"
    header = ["name", "EMA", "model parameters", "forwards", share, "memory", "hyper-parameters"]
    if markdown:
        print(console.markdown(header, rows))
        return
    console.show(header, rows)
    console.out.print(
        "\nEMA: the batch that moves the running statistics; / means every forward does."
        "\nForwards are per step, once there is something in memory. --json shows more."
        "\nNew share of φ: how much of the running statistics is the newest task's, as task 5 ends."
    )


@app.command
def streams(*, json: Json = False) -> None:
    """List every stream of tasks that can be learned.

    Parameters
    ----------
    json
        Print an array of objects instead.
    """
    from dataclasses import asdict

    from bntricks.streams import STREAMS

    rows = [asdict(info) for info in STREAMS.values()]
    if json:
        print_json(rows)
        return
    console.show(list(rows[0]), [[_shown(value) for value in row.values()] for row in rows])


def _shown(value: object) -> object:
    """A dash for nothing, and both numbers of a pair."""
    if isinstance(value, tuple):
        return " + ".join(map(str, value))
    return "–" if value is None else value


def _share(share: str | float | None) -> str:
    return "–" if share is None else f"{share:.2f}"


def _forwards(columns: dict[str, str | float | None]) -> str:
    """Passes of a step: with gradients; for tracking alone; by the teacher; for the projection."""
    extra = {what: columns[f"{what}_forwards"] for what in ("tracking", "teacher", "projection")}
    parts = [f"{count} {what}" for what, count in extra.items() if str(count) != "0"]
    return " + ".join([str(columns["forwards"]), *parts])
