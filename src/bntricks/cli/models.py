"""Shared parts of the commands that work on model files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

from bntricks.cli import console
from bntricks.cli.app import whole
from bntricks.cli.printing import stdout_reserved
from bntricks.errors import HeldError, UserError, abbreviated
from bntricks.files import command_line, held, regular_file, shown, write_errors

if TYPE_CHECKING:
    from torch import nn

    from bntricks.model.model import Model
    from bntricks.model.samples import ClassSamples
    from bntricks.streams.files.image_files import ImageFiles

Net = Annotated[
    str | None,
    Parameter(
        help="An adopted model: what builds its network, as `package.module:function`. It is "
        "imported and run."
    ),
]
SkipUnreadable = Annotated[
    bool,
    Parameter(
        negative=(),
        help="Name images that cannot be read and leave them out, instead of refusing.",
    ),
]
Keep = Annotated[
    int,
    whole(gte=0, lte=1000),
    Parameter(help="Earlier models that stay beside this one, each a whole file."),
]
S = TypeVar("S", "ClassSamples", "ImageFiles")


def open_model(path: Path, *, net: str | None, device: str = "cpu") -> Model:
    """Open the model in a file. `net` names the function that builds an adopted network."""
    from bntricks.model.model import Model

    network = None if net is None else build_network(net)
    return Model.load(path, net=network, device=device)


def build_network(where: str) -> nn.Module:
    """Call the user's function and return its network."""
    from bntricks.networks.imported import called

    console.complain(f"importing and running {where}")
    with stdout_reserved():
        return called(where)


def read_images(read: Callable[..., S], *given: Any, skip: bool, **how: Any) -> S:
    """Read images by this function, show its progress, and name each file that is left out."""
    with console.reporting() as report:
        images = read(*given, skip=skip, report=report, **how)
    for line in images.unreadable:
        console.complain(f"{line}; left out")
    return images


def prepare(device: str, threads: int) -> None:
    """Set the threads, and refuse a device that cannot be used."""
    import torch

    from bntricks.training.backend import allow_tf32, check_device, keep_freed_memory

    check_device(device)
    allow_tf32(False)
    torch.set_num_threads(threads)
    keep_freed_memory()


def check_target(path: Path, *, inputs: Iterable[Path | None] = (), force: bool = True) -> None:
    """Refuse, before any work, a file that cannot be written, or that would replace an input of the
    command, a file in a folder of inputs, or, without `force`, any existing file."""
    target = regular_file(path)
    for given in inputs:
        if given is not None and _would_cost(target, given):
            raise UserError(f"{shown(path)} is an input of this command: write to a different file")
    if target.exists() and not force:
        raise UserError(
            f"{shown(path)} is there already: choose another name, or replace it", remedy="force"
        )
    folder = target.parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise UserError(f"the folder {shown(folder)} does not exist: make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"cannot write in {shown(folder)}: choose another folder")


def check_page(path: Path, *, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse, before any work, a file that is no page by its name, or that cannot be written."""
    check_target(path, inputs=inputs)
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"cannot write {shown(path)}: a page is HTML, so give it a name that ends in .html"
        )


def check_targets(paths: Sequence[Path], *, inputs: Sequence[Path] = ()) -> None:
    """Check several target files, which must be different."""
    for position, path in enumerate(paths):
        check_target(path, inputs=inputs)
        if any(regular_file(path) == regular_file(other) for other in paths[:position]):
            raise UserError(f"{shown(path)} is to be written twice: give each file its own name")


def _would_cost(target: Path, given: Path) -> bool:
    if not target.exists() or not given.exists():
        return False
    return target.samefile(given) or Path(os.path.realpath(given)) in target.parents


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Keep other commands from this model, whether it exists yet or not, and yield whether it
    does. The remains of a killed command are removed when it is saved."""
    with ExitStack() as stack:
        try:
            with write_errors(path):
                stack.enter_context(held(path))
        except HeldError:
            raise HeldError(f"{shown(path)} is being taught by another process") from None
        yield path.exists()


def open_to_change(path: Path, *, net: str | None, keep: int, device: str = "cpu") -> Model:
    """Open the model in a file that will be replaced. A lesson that was refused since its last
    change is part of its history."""
    from bntricks.model.earlier import check_room, history_with_refused

    check_room(path, keep)
    model = open_model(path, net=net, device=device)
    history = history_with_refused(path, model.metadata, model.checksum)
    model.metadata = model.metadata.model_copy(update={"history": history})
    return model


def recorded_command() -> str:
    """Return the command for a history, without what changes no result. Of an absolute path it has
    the last name alone: a model file says nothing of the machine."""
    words, left_out = list[str](), ("--into", "--keep", "--checkpoint-seconds")
    given = iter(sys.argv[1:])
    for word in given:
        name, equals, value = word.partition("=")
        if name in left_out:
            if not equals:
                next(given, None)
        elif word != "--json":
            own = Path(value or name)
            last = own.name if own.is_absolute() else value or name
            words.append(f"{name}={last}" if equals else last)
    return command_line(["bnt", *words])


def kept_models(path: Path) -> str:
    """Say which earlier models are kept beside this one, and how much room they take."""
    from bntricks.model.earlier import earlier_models
    from bntricks.model.file import opened

    kept = earlier_models(path, opened(path)[0].history)
    if not kept:
        return "no earlier model is kept"
    names = abbreviated([shown(file.name) for file in kept.values()], 6)
    size = sum(file.stat().st_size for file in kept.values()) / 1e6
    return f"earlier models kept beside it, {size:.1f} MB in all: {names} (bnt rollback)"


def examined(model: Model) -> str | None:
    """Return the doctor's verdict on a model in use; a failed check-up is only a warning."""
    from bntricks.doctor.model import checkup

    try:
        verdict = checkup(model)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        console.complain(f"the doctor could not examine the model: {reason}")
        return None
    if verdict is None:
        return None
    return verdict.headline if verdict.cost == "none" else f"{verdict.headline} {verdict.advice}"
