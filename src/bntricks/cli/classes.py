"""`bnt rename-class` and `bnt remove-class`: changes of a model's classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from bntricks.cli import console
from bntricks.cli.app import Imports, app, import_all
from bntricks.cli.models import (
    Keep,
    Net,
    check_target,
    kept_models,
    locked,
    open_to_change,
    recorded_command,
)
from bntricks.files import shown
from bntricks.model.options import KEEP

if TYPE_CHECKING:
    from bntricks.model.model import Model

Names = Annotated[tuple[str, ...], Parameter(negative=())]


@app.command
def rename_class(
    model: Path,
    old: str,
    new: str,
    /,
    *,
    keep: Keep = KEEP,
    net: Net = None,
    imports: Imports = (),
) -> None:
    """Give a class of a model another name.

    What the model answers stays as it is.

    Examples:

    - `bnt rename-class model.safetensors cat tabby`

    Parameters
    ----------
    model
        A model file that `bnt learn` wrote. It is replaced in one step.
    old
        The name it has.
    new
        The name it gets.
    """
    import_all(imports)
    with _changed(model, net, keep) as opened:
        opened.rename({old: new})
    console.say(f"{shown(old)} is now called {shown(new)} in {shown(model)}")


@app.command
def remove_class(
    model: Path,
    names: Names,
    /,
    *,
    keep: Keep = KEEP,
    net: Net = None,
    imports: Imports = (),
) -> None:
    """Remove classes from a model, with their images.

    Their outputs go, and their images in its memory and its test images. Nothing is trained. Images
    of a removed class are taken for one of the others from now on, or for unknown with `bnt predict
    --threshold`. What the network has seen of them stays in its weights.

    Examples:

    - `bnt remove-class model.safetensors cat dog`

    Parameters
    ----------
    model
        A model file that `bnt learn` wrote. It is replaced in one step.
    names
        The classes to remove.
    """
    import_all(imports)
    with _changed(model, net, keep) as opened:
        opened.remove(names)
    left = len(opened.classes)
    console.say(f"{shown(model)} knows {left} class{'es' * (left != 1)} now; {kept_models(model)}")


@contextmanager
def _changed(path: Path, net: str | None, keep: int) -> Iterator[Model]:
    """Load the model in this file, and save it there after the change."""
    from bntricks.model.file import forget

    check_target(path)
    with locked(path):
        model = open_to_change(path, net=net, keep=keep)
        yield model
        model.metadata = model.metadata.amended(command=recorded_command())
        forget(path)  # before, so that no image of a removed class is left if this is cut short
        model.save(path, memory=model.metadata.with_memory, keep=keep)
