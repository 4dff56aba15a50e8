"""`bnt check`: does a device compute what the CPU does?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bntricks.cli import console
from bntricks.cli.app import Imports, Json, Names, Switch, app, import_all
from bntricks.cli.printing import print_json
from bntricks.errors import RunError, UserError

if TYPE_CHECKING:
    from bntricks.sweeps.contract import Subject


@app.command
def check(
    *,
    device: str = "cpu",
    contract: Switch = False,
    parts: Names = (),
    methods: Names = (),
    names: Names = (),
    net: str | None = None,
    data: Path | None = None,
    imports: Imports = (),
    json: Json = False,
) -> None:
    """Check a device, or code of your own.

    A device must compute what the CPU does. Small lessons are learned on both, and compared. A
    network may end at most 5% of the way it was trained from where it ends on the CPU, and a step
    on CUDA may make the host wait at most twice, for ER-BNT and DER++-BNT once. If a check fails,
    the exit code is 1. Takes a few minutes.

    With `--contract`, all that your `--import` registers is tried in small runs, which must end in
    the same bits however they are made: trained again, with every tracking pass, interrupted,
    saved and loaded, in a worker of a study, on devices that are only pretended. Each option of a
    stream must change something or be refused.

    Examples:

    - `bnt check --device cuda`
    - `bnt check --contract --import my.py`
    - `bnt check --contract --net nets:build`
    - `bnt check --contract --names er-bnt seq-digits`

    Parameters
    ----------
    device
        What to check: cpu, cuda, cuda:N or mps.
    contract
        Check code instead of a device: yours, or without `--import` all that ships.
    parts
        Check only these [default: all]: methods, resume, bf16, compile, model, ranks of a device
        (`ranks` splits a run over two processes; on CUDA it needs two GPUs); again, every-step,
        interrupted, loaded, study, devices, options, threads of a contract.
    methods
        Methods that are checked on a device [default: all].
    names
        Methods, streams, networks and whatever else is registered that are checked for the
        contract [default: all of your own].
    net
        A network of your own that is checked for the contract, as `package.module:function`. It is
        imported and run.
    data
        The folder with the images of a stream that is checked for the contract.
    json
        Print the table as one JSON object.
    """
    import_all(imports)
    if contract:
        if device != "cpu" or methods:
            given = "device" if device != "cpu" else "methods"
            raise UserError("leave it out: a contract is checked on the CPU", option=given)
        from bntricks.sweeps.contract import Subject, subjects

        chosen = [] if net is None else [Subject("net", net)]
        if names or imports or net is None:
            chosen += subjects(names)
        _check_contract(chosen, parts, data, json)
        return
    if idle := [key for key, value in {"names": names, "net": net, "data": data}.items() if value]:
        raise UserError("this is for contracts", option=idle[0], remedy="contract")
    from bntricks.runs.check import check_on

    rows: list[dict[str, Any]] = []
    shown = _printed({"device": device}, rows, json, lambda: _show(rows, device))
    with shown, console.reporting() as report:
        for row in check_on(device, parts=parts, methods=methods, report=report):
            rows.append(asdict(row))
    if failed := [f"{row['part']} {row['name']}" for row in rows if row["outcome"] == "failed"]:
        raise RunError(f"{len(failed)} of {len(rows)} checks failed: {', '.join(failed)}")


def _check_contract(
    chosen: Sequence[Subject], parts: Sequence[str], data: Path | None, json: bool
) -> None:
    from bntricks.sweeps.contract import check_contract

    rows: list[dict[str, Any]] = []
    shown = _printed({"contract": True}, rows, json, lambda: _show_contract(rows))
    with shown, console.reporting() as report:
        for finding in check_contract(chosen, parts=parts, data=data, report=report):
            rows.append(asdict(finding.subject) | asdict(finding))
            del rows[-1]["subject"]
    broken = list(dict.fromkeys(row["name"] for row in rows if row["outcome"] == "broken"))
    if broken:
        raise RunError(f"the contract is broken by {', '.join(broken)}")


@contextmanager
def _printed(
    about: dict[str, Any], rows: list[dict[str, Any]], json: bool, show: Callable[[], None]
) -> Iterator[None]:
    """Print the rows at the end; an interrupt keeps what was checked."""
    try:
        yield
    finally:
        if rows and json:
            print_json(about | {"torch": version("torch"), "rows": rows})
        elif rows:
            show()


def _show_contract(rows: list[dict[str, Any]]) -> None:
    """Print a line for each subject, a column for each part, and the findings below."""
    parts = list(dict.fromkeys(row["part"] for row in rows))
    found = {(row["kind"], row["name"], row["part"]): row for row in rows}
    cells = []
    for kind, name in dict.fromkeys((row["kind"], row["name"]) for row in rows):
        outcomes = [found.get((kind, name, part)) for part in parts]
        cells.append([kind, name, *(_outcome(row) for row in outcomes)])
    console.show(["", "", *parts], cells, title=f"contract, PyTorch {version('torch')}")
    for row in rows:
        if row["outcome"] == "broken":
            console.say(f"{row['kind']} {row['name']}, {row['part']}: {row['note']}")


def _outcome(row: dict[str, Any] | None) -> str:
    if row is None or row["outcome"] == "not here":
        return "–"
    return str(row["note" if row["outcome"] == "reported" else "outcome"])


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
