"""Shared parts of the commands that work on model files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

from bntricks.cli import console
from bntricks.cli.printing import stdout_reserved
from bntricks.errors import HeldError, UserError
from bntricks.files import held, leftovers, quoted, regular_file, shown, write_errors

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
    does. The remains of a killed command are removed when it is saved, unless they may be the
    only copy."""
    with ExitStack() as stack:
        try:
            with write_errors(path):
                stack.enter_context(held(path))
        except HeldError:
            raise HeldError(f"{shown(path)} is being taught by another process") from None
        unfinished = leftovers(path)
        kept = [*takewhile(Path.exists, names_before(path))]
        if unfinished and kept and not path.exists():
            raise UserError(
                f"{shown(path)} is not there, and a command that was changing it did not finish: "
                f"bring the model back (mv {quoted(kept[-1])} {quoted(path)}), or go on without it "
                f"(rm {' '.join(map(quoted, unfinished))})"
            )
        yield path.exists()


def names_before(path: Path) -> Iterator[Path]:
    """Return the names under which `bnt learn` keeps earlier models, in the order of time."""
    path = path.resolve() if path.is_symlink() else path
    for number in ("", *range(2, 1000)):
        yield path.with_name(f"{path.stem}.before{number}{path.suffix}")


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
