"""`bnt history`, `bnt rollback` and `bnt accept`: how a model came to be, and which one serves."""

from __future__ import annotations

from pathlib import Path

from bntricks.cli import console
from bntricks.cli.app import Count, Json, app
from bntricks.cli.models import Keep, check_target, kept_models, locked, recorded_command
from bntricks.cli.printing import print_json
from bntricks.errors import UserError
from bntricks.files import shown
from bntricks.model.options import KEEP


@app.command
def history(model: Path, /, *, json: Json = False) -> None:
    """Print how a model came to be, change by change.

    An entry has the number by which `bnt rollback` knows the model as it was then. Accuracies are
    those measured at the time, on held-out images of the classes that it knew.

    Examples:

    - `bnt history model.safetensors`

    Parameters
    ----------
    model
        A model file that `bnt learn` wrote.
    json
        Print all that the entries hold: data digests, rates, steps, images and accuracies by class,
        checksums, versions and commands.
    """
    from bntricks.model.earlier import earlier_models, history_with_refused
    from bntricks.model.file import opened

    metadata, _, own = opened(model)
    entries = history_with_refused(model, metadata, own)
    kept = earlier_models(model, metadata.history)
    if json:
        print_json(
            {
                "path": str(model),
                "checksum": own,
                "entries": [
                    {"number": number, **each.model_dump(mode="json")}
                    for number, each in enumerate(entries, start=1)
                ],
                "kept": {number: str(file) for number, file in kept.items()},
            }
        )
        return
    rows = []
    for number, each in enumerate(entries, start=1):
        old = "" if each.old is None else "{:.1f} → {:.1f}".format(*each.old)
        every = "" if each.all is None else "{:.1f} ({:.1f} to {:.1f})".format(*each.all)
        lesson = "" if not each.epochs else f"{each.images} images, {each.steps} steps"
        if each.lr is not None:
            lesson += f" at {each.lr:.2g}"
        file = shown(kept[number].name) if number in kept else ""
        rows.append([number, each.date, each.change, lesson, old, every, file])
    header = ["", "date", "change", "lesson", "old classes %", "all classes %", "kept"]
    console.show(header, rows, title=f"{shown(model)}, checksum {own[:12]}")
    for number, each in enumerate(entries, start=1):
        if each.command is not None:
            console.say(f"{number}: {each.command}")
        if each.event == "refused":
            console.say(f"{number}: refused, for {each.note}")
    console.say(kept_models(model))
    if len(entries) > len(metadata.history):
        console.say(f"the result of entry {len(entries)} is beside it: bnt accept {shown(model)}")


@app.command
def rollback(model: Path, number: Count | None = None, /, *, keep: Keep = KEEP) -> None:
    """Bring back an earlier model.

    The one that was there is kept, and the history goes on.

    Examples:

    - `bnt rollback model.safetensors`
    - `bnt rollback model.safetensors 3`

    Parameters
    ----------
    model
        A model file that `bnt learn` wrote. It is replaced in one step.
    number
        The entry of `bnt history` after which the model was as it shall be [default: the newest
        that is kept].
    """
    from bntricks.model.earlier import roll_back

    check_target(model)
    with locked(model) as exists:
        _check_exists(model, exists)
        metadata, number = roll_back(model, number, keep=keep, command=recorded_command())
    known = len(metadata.classes)
    console.say(
        f"{shown(model)} is as it was after entry {number}, with {known} class"
        f"{'es' * (known != 1)}; {kept_models(model)}"
    )


@app.command
def accept(model: Path, /, *, keep: Keep = KEEP) -> None:
    """Let the result of a refused lesson serve.

    Examples:

    - `bnt accept model.safetensors`

    Parameters
    ----------
    model
        The model file that the lesson was to change. It is replaced in one step.
    """
    from bntricks.model import earlier

    check_target(model)
    with locked(model) as exists:
        _check_exists(model, exists)
        earlier.accept(model, keep=keep, command=recorded_command())
    console.say(f"{shown(model)} has the lesson that was refused; {kept_models(model)}")


def _check_exists(path: Path, exists: bool) -> None:
    if not exists:
        raise UserError(f"{shown(path)} does not exist: give a model file")
