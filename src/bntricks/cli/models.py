"""What the commands that work on model files share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bntricks.cli.console import complain
from bntricks.errors import HeldError, UserError
from bntricks.files import held
from bntricks.streams.files.source import reading, shown

if TYPE_CHECKING:
    from bntricks.training.learner import Learner


def open_model(path: Path, *, net: str | None, device: str = "cpu") -> Learner:
    """The learner in a file. `net` names the function that builds an adopted network."""
    from bntricks.doctor.foreign import make_network
    from bntricks.training.learner import Learner

    if net is None:
        return Learner.load(path, device=device)
    complain(f"importing and running {net}")
    return Learner.load(path, net=make_network(net), device=device)


def prepare(device: str, threads: int) -> None:
    """Compute there, or say before any work that it cannot be."""
    import torch

    from bntricks.runs.resolve import check_device
    from bntricks.training.allocator import keep_memory

    if re.fullmatch(r"cpu|mps|cuda(:\d+)?", device) is None:
        raise UserError(f"--device {device}: give cpu, cuda, cuda:N or mps")
    check_device(device)
    torch.set_num_threads(threads)
    keep_memory()


def check_target(path: Path) -> None:
    """Fail before any work if a file cannot be written there."""
    folder = path.parent
    if path.is_dir():
        raise UserError(f"{shown(path)} is a folder: give the name of a file to write")
    if not folder.is_dir():
        raise UserError(f"the folder {shown(folder)} does not exist: make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"cannot write in {shown(folder)}: choose another folder")


@contextmanager
def alone_with(path: Path) -> Iterator[bool]:
    """Whether the model is there already; if so, no other command can teach it meanwhile."""
    if not path.exists():
        yield False
        return
    with ExitStack() as stack:
        try:
            with reading(path):
                stack.enter_context(held(path))
        except HeldError:
            raise HeldError(f"{shown(path)} is being taught by another process") from None
        yield True


def check_first(path: Path, *, known: bool) -> None:
    """Two commands may both have found no model; the later one must not replace the other's."""
    if not known and path.exists():
        raise HeldError(f"{shown(path)} was made by another process meanwhile: nothing was written")
