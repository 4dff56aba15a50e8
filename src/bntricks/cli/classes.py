"""`bnt rename-class` and `bnt remove-class`: classes of a model that exists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bntricks.cli import console
from bntricks.cli.app import app
from bntricks.cli.models import check_target, locked, open_model
from bntricks.files import shown

Names = Annotated[tuple[str, ...], Parameter(negative=())]


@app.command
def rename_class(model: Path, old: str, new: str, /, *, net: str | None = None) -> None:
    """Give a class of a model another name. What the model answers stays as it is.

    Parameters
    ----------
    model
        A model file that `bnt learn` wrote. It is replaced in one step.
    old
        The name it has.
    new
        The name it gets.
    net
        An adopted model: what builds its network, as `package.module:function`. It is imported
        and run.
    """
    check_target(model)
    with locked(model):
        opened = open_model(model, net=net)
        opened.rename({old: new})
        opened.save(model)
    console.say(f"{shown(old)} is now called {shown(new)} in {shown(model)}")


@app.command
def remove_class(model: Path, names: Names, /, *, net: str | None = None) -> None:
    """Remove classes from a model: their outputs, their images in its memory and its test images.

    Nothing is trained. Images of a removed class are taken for one of the others from now on, or
    for unknown with `bnt predict --threshold`. What the network has seen of them stays in its
    weights.

    Parameters
    ----------
    model
        A model file that `bnt learn` wrote. It is replaced in one step.
    names
        The classes to remove.
    net
        An adopted model: what builds its network, as `package.module:function`. It is imported
        and run.
    """
    check_target(model)
    with locked(model):
        opened = open_model(model, net=net)
        opened.remove(names)
        opened.save(model)
    left = len(opened.classes)
    console.say(f"{shown(model)} knows {left} class{'es' * (left != 1)} now")
