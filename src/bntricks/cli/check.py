"""`bnt check`: does a device compute what the CPU does?"""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from bntricks.cli import console
from bntricks.cli.app import Imports, Json, Names, app, import_all
from bntricks.cli.printing import print_json
from bntricks.errors import RunError

Part = Literal["methods", "resume", "bf16", "compile", "model", "ranks"]


@app.command
def check(
    *,
    device: str = "cpu",
    parts: Annotated[tuple[Part, ...], Parameter(negative=(), consume_multiple=True)] = (),
    methods: Names = (),
    imports: Imports = (),
    json: Json = False,
) -> None:
    """Check that a device computes what the CPU does: every method, resuming, models and more.

    Small lessons are learned on both, and compared. A network may end at most 5% of the way it
    was trained from where it ends on the CPU, and a step on CUDA may make the host wait at most
    twice, for ER-BNT and DER++-BNT once. If a check fails, the exit code is 1. Takes a few minutes.

    Parameters
    ----------
    device
        What to check: cpu, cuda, cuda:N or mps.
    parts
        Check only these [default: all]. `ranks` splits a run over two processes; on CUDA it needs
        two GPUs.
    methods
        Methods that are checked [default: all].
    json
        Print the table as one JSON object.
    """
    from bntricks.runs.check import check_on

    import_all(imports)
    rows: list[dict[str, Any]] = []
    try:
        with console.reporting() as report:
            for row in check_on(device, parts=parts, methods=methods, report=report):
                rows.append(asdict(row))
    finally:  # an interrupt keeps what was checked
        if rows and json:
            print_json({"device": device, "torch": version("torch"), "rows": rows})
        elif rows:
            _show(rows, device)
    if failed := [f"{row['part']} {row['name']}" for row in rows if row["outcome"] == "failed"]:
        raise RunError(f"{len(failed)} of {len(rows)} checks failed: {', '.join(failed)}")


def _show(rows: list[dict[str, Any]], device: str) -> None:
    cells = [
        [
            row["part"],
            row["name"],
            row["outcome"],
            "" if row["difference"] is None else f"{row['difference']:.2g}",
            "" if row["waits"] is None else f"{row['waits']:g}",
            f"{row['seconds']:.1f}",
            row["note"],
        ]
        for row in rows
    ]
    header = ["", "method", "outcome", "distance from CPU", "waits a step", "seconds", ""]
    console.show(header, cells, title=f"{device}, PyTorch {version('torch')}")
