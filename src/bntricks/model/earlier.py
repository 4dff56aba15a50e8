"""Files beside a model: earlier models by number, which is that of the last entry of their history,
and the result of a lesson that was refused. A change of a model is one rename: whatever kills it,
the model's place has the one from before or the new one, and the same command completes it."""

from __future__ import annotations

import os
from pathlib import Path

from bntricks.errors import UserError, abbreviated
from bntricks.files import commit, shown, write_errors
from bntricks.model.file import Tensors, forget, lesson_file, opened, packed, packed_parts
from bntricks.model.history import HistoryEntry, entry, today
from bntricks.model.metadata import FORMAT, Metadata
from bntricks.model.model import Model


def earlier_file(path: Path, number: int) -> Path:
    """Return the file that keeps the model as it was after this entry."""
    return _beside(path, str(number))


def refused_file(path: Path) -> Path:
    """Return the file of the result that the gate has refused."""
    return _beside(path, "refused")


def _checksum(file: Path) -> str | None:
    try:
        return opened(file)[2]
    except UserError:
        return None


def _beside(path: Path, what: str) -> Path:
    target = Path(os.path.realpath(path))
    return target.with_name(f"{target.stem}.{what}{target.suffix}")


def earlier_models(path: Path, history: tuple[HistoryEntry, ...]) -> dict[int, Path]:
    """List the earlier models of this history that are kept, by number. A file of that name whose
    checksum is not in the history is somebody else's."""
    found, parents = {}, {each.parent for each in history} - {None}
    for number in range(1, len(history)):
        if (file := earlier_file(path, number)).is_file() and _checksum(file) in parents:
            found[number] = file
    return found


def check_room(path: Path, keep: int) -> None:
    """Refuse, before any work, to replace a file that is no earlier model of this one."""
    if keep and path.exists():
        metadata, _, own = opened(path)
        file = earlier_file(path, len(metadata.history))
        if file.exists() and _checksum(file) != own:
            raise UserError(
                f"{shown(file)} is there, where {shown(path)} would be kept as it is now, and is "
                "another file: move it away, or keep 0 earlier models",
                remedy="keep",
            )


def replace_model(path: Path, content: bytes, *, keep: int | Path | None) -> None:
    """Put a model in the place of the one in this file, which is kept by its number. The result of
    a refused lesson, and earlier models beyond the newest `keep`, are removed; if that is None,
    none is kept or removed. A lesson that was to change the model has nothing to go on from any
    more, and is removed first, so that a kill never leaves its images behind."""
    before, outdated = None, list[Path]()
    if isinstance(keep, Path):
        before = keep
    elif keep is not None and path.exists():
        check_room(path, keep)
        metadata, _, _ = opened(path)
        kept = earlier_models(path, metadata.history)
        if keep:
            number = len(metadata.history)
            before = kept[number] = earlier_file(path, number)
        outdated = [kept[number] for number in sorted(kept)[: max(0, len(kept) - keep)]]
        outdated.append(refused_file(path))
    with write_errors(path):
        commit({path: content}, keep=before, outdated=_lessons(path))
        forget(path)
        for file in outdated:
            file.unlink(missing_ok=True)


def put_beside(model: Model, path: Path, *, memory: bool = True) -> Path:
    """Write a model that was refused beside the one that stays in this file."""
    target = refused_file(path)
    with write_errors(target):
        commit({target: packed(model, memory=memory)[0]}, outdated=_lessons(path))
        forget(path)
    return target


def _lessons(path: Path) -> list[Path]:
    return [file for file in [lesson_file(path)] if file.is_file()]


def history_with_refused(
    path: Path, metadata: Metadata, own: str | None
) -> tuple[HistoryEntry, ...]:
    """Return the history of the model in this file, with a lesson that was refused since."""
    refused = _refused(path, own)
    return metadata.history if refused is None else refused[0].history


def accept(path: Path, *, keep: int, command: str | None = None) -> Metadata:
    """Put the result of the lesson that was refused in the model's place."""
    _, _, own = opened(path)
    refused = _refused(path, own)
    if refused is None:
        raise UserError(
            f"no lesson of {shown(path)} as it is now was refused: there is nothing to accept"
        )
    metadata, tensors = refused
    changes = {"event": "accepted", "date": today(), "command": command, "note": ""}
    done = metadata.history[-1].model_copy(update=changes)
    return _changed(path, metadata, tensors, (*metadata.history, done), keep)


def _refused(path: Path, own: str | None) -> tuple[Metadata, Tensors] | None:
    file = refused_file(path)
    if own is None or not file.is_file():
        return None
    try:
        metadata, tensors, _ = opened(file)
    except UserError:
        return None
    last = metadata.history[-1]
    return (metadata, tensors) if (last.event, last.parent) == ("refused", own) else None


def roll_back(
    path: Path, number: int | None, *, keep: int, command: str | None = None
) -> tuple[Metadata, int]:
    """Bring an earlier model back, by default the newest one, and return it with its number. Its
    history goes on from the present one."""
    metadata, _, own = opened(path)
    kept = earlier_models(path, metadata.history)
    if number is None:
        number = max((n for n in kept if n < _stands_for(metadata)), default=None)
    if number is not None and number == _stands_for(metadata):
        raise UserError(f"{shown(path)} is as it was after entry {number} already")
    if number is None or number not in kept:
        there = abbreviated([str(each) for each in kept], 10) or "none"
        raise UserError(
            f"no earlier model {'' if number is None else f'{number} '}of {shown(path)} is kept: "
            f"there is {there}"
        )
    then, tensors, _ = opened(kept[number])
    history = history_with_refused(path, metadata, own)
    done = entry("rolled back", note=f"to {number}", parent=own, command=command)
    return _changed(path, then, tensors, (*history, done), keep), number


def _stands_for(metadata: Metadata) -> int:
    """Return the number of the entry whose model this is: after a roll-back, an earlier one."""
    last = metadata.history[-1]
    back = last.event == "rolled back" and last.note.removeprefix("to ")
    return int(back) if back else len(metadata.history)


def _changed(
    path: Path, metadata: Metadata, tensors: Tensors, history: tuple[HistoryEntry, ...], keep: int
) -> Metadata:
    metadata = metadata.model_copy(update={"history": history, "format": FORMAT})
    replace_model(path, packed_parts(metadata.model_dump(mode="json"), tensors), keep=keep)
    return metadata
