"""`bnt diagnose`: what BatchNorm costs a model. `bnt recalibrate` has the same options to select a
model and images."""

from __future__ import annotations

import json as encoding
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import Field, field_validator

from bntricks.cli import console
from bntricks.cli.adopt import Numbers, image_input, is_file, listed_classes
from bntricks.cli.app import Device, Imports, Json, Names, Threads, app, import_all
from bntricks.cli.models import SkipUnreadable, check_page, open_model, prepare, recorded_command
from bntricks.cli.printing import stdout_reserved
from bntricks.errors import UserError
from bntricks.files import command_line, quoted, shown
from bntricks.options import Options
from bntricks.runs.config import class_names

if TYPE_CHECKING:
    from torch import nn

    from bntricks.doctor.groups import BatchesByGroup
    from bntricks.doctor.images import Photos
    from bntricks.doctor.preprocessing import InputChange, Normalisation

    Opened = tuple[
        nn.Module,
        BatchesByGroup,
        Sequence[str],
        Normalisation | None,
        Callable[[Path], None],
    ]


class Selection(Options):
    """Options that choose the model, and which images in which groups."""

    data: Path
    """A folder with one folder of images for each class."""
    groups: Names | None = None
    """Lists of class names in the order they were learned, the newest last, each as 'cat,dog' or
    '["cat", "dog"]' [default: the tasks of a MODEL]."""
    net: str | None = None
    """A network of your own: package.module:function, called without arguments. It is imported
    and run."""
    weights: Path | None = None
    """Its weights: safetensors, or a checkpoint saved by torch.save, also one of Lightning, timm or
    a compiled network [default: those that --net returns it with]."""
    classes: str | None = None
    """Its classes in the order of its outputs, as a file with a name on each line, as 'cat,dog', or
    as a JSON list [default: the class folders, sorted]."""
    preprocessing: Path | None = None
    """JSON with its image size, mean and standard deviation, as in `bnt learn`."""
    image_size: Annotated[int, Field(ge=8, le=1024)] | None = None
    """Side of its images [default: what --preprocessing says, or 224]."""
    mean: Numbers = ()
    """Mean of the pixels in [0, 1] that it was trained with, three values, or one for grey images:
    `--mean 0.5 --std 0.5` makes images grey. Required, unless --preprocessing says it."""
    std: Numbers = ()
    """Their standard deviation, likewise."""
    images_per_class: Annotated[int, Field(ge=2)] | None = None
    """Use only this many images of each class, the first ones [default: all]."""
    batch: Annotated[int, Field(ge=2)] = 128
    """Images that pass through the network at once."""
    skip_unreadable: SkipUnreadable = False
    imports: Imports = ()
    device: Device = "cpu"
    threads: Annotated[Threads, Field(ge=1, le=1024)] = 1

    @field_validator("groups", mode="before")
    @classmethod
    def _as_text(cls, groups: Any) -> Any:
        """Turn group names into text, as the command line decodes JSON lists."""
        if not isinstance(groups, list | tuple):
            return groups
        return tuple(
            g if isinstance(g, str) else encoding.dumps(g, ensure_ascii=False) for g in groups
        )


@app.command
def diagnose(
    model: Path | None = None,
    /,
    *,
    selection: Annotated[Selection, Parameter(name="*")],
    out: Path | None = None,
    json: Json = False,
) -> None:
    """Say what BatchNorm's statistics cost a model.

    It does so layer by layer. Half of the images estimate moments, the other half measure accuracy.
    The model is only read.

    Examples:

    - `bnt diagnose model.safetensors --data photos`
    - `bnt diagnose --net nets:resnet --weights w.pt --data photos --groups cat,dog ship,truck`

    Parameters
    ----------
    model
        A model that bnt saved, unless --net brings one of your own.
    out
        Write a page with charts here, an HTML file.
    json
        Print everything as one JSON object.
    """
    from bntricks.doctor import diagnose as examine
    from bntricks.doctor.tables import accuracy_table
    from bntricks.report.tables.table import to_rich

    if out is not None:
        check_page(out, inputs=inputs_of(model, selection))
    with stdout_reserved(), console.reporting() as report:
        net, images, classes, normalised, _ = opened(model, selection)
        diagnosis = examine(
            net,
            images,
            normalised=normalised,
            check_input=normalised is not None,  # a MODEL has its own
            size=selection.batch,
            report=report,
        )
    if out is not None:
        diagnosis.write_page(out, command=command_line(["bnt", *sys.argv[1:]]))
    if json:
        print(diagnosis.to_json())
        return
    console.say(diagnosis)
    console.out.print(to_rich(accuracy_table(diagnosis)))
    if diagnosis.fitting_order is not None and len(diagnosis.fitting_order) == len(classes):
        fitting = [classes[label] for label in diagnosis.fitting_order]
        order = quoted(encoding.dumps(fitting, ensure_ascii=False))
        console.say(f"an order of classes that fits the answers: --classes {order}")
    if diagnosis.input_change is not None:
        console.say(f"a normalisation that fits: {flags(diagnosis.input_change)}")
    if out is not None:
        console.say(f"page written to {shown(out)}")


def opened(model: Path | None, selection: Selection, *, moves: bool = False) -> Opened:
    """Open the network, its images, its classes and how pixels are normalised if these are given,
    and a function that writes it. A network whose φ must not move is refused if it is to be
    recalibrated."""
    from bntricks.doctor.model import model_images
    from bntricks.doctor.user_network import open_network
    from bntricks.networks.weights import save_weights

    prepare(selection.device, selection.threads)
    import_all(selection.imports)
    groups = [class_names(text, "groups") for text in selection.groups or ()]
    if model is not None and selection.weights is None:
        for option in ("classes", "preprocessing", "image_size", "mean", "std"):
            if option in selection.given():
                raise UserError(
                    "it describes a network of your own: leave it out, a MODEL has its own",
                    option=option,
                )
        known = open_model(model, net=selection.net, device=selection.device)
        if moves and known.frozen is not None:
            raise UserError(
                f"{shown(model)} has a frozen backbone, and all it knows are features by the "
                "statistics it has now: keep them, or tune the trunk, which decides about them"
            )
        images = model_images(known, _photos(selection), groups)
        if moves:
            known.note("recalibrated", command=recorded_command())
        save = partial(known.save, memory=known.metadata.with_memory)
        return known.net, images, [], None, save
    if model is not None or selection.net is None:
        raise UserError(
            "give either MODEL, or --net package.module:function, with --weights FILE unless the "
            "function returns a trained network"
        )
    size, mean, std = image_input(
        selection.preprocessing, selection.image_size, selection.mean, selection.std
    )
    photos = _photos(selection)
    classes = photos.folders if selection.classes is None else listed_classes(selection.classes)
    console.complain(f"importing and running {selection.net}")
    net, images, checkpoint = open_network(
        selection.net,
        selection.weights,
        photos,
        groups,
        classes,
        image_size=size,
        mean=mean,
        std=std,
        device=selection.device,
    )
    return net, images, classes, (mean, std), partial(save_weights, net, checkpoint)


def flags(change: InputChange) -> str:
    """Name the right normalisation by the options that give it."""
    from bntricks.doctor.preprocessing import listed

    return f"--mean {listed(change.mean or ())} --std {listed(change.std or ())}"


def _photos(selection: Selection) -> Photos:
    from bntricks.doctor.images import Photos
    from bntricks.streams.files.image_files import class_folders
    from bntricks.streams.sources.folder import image_folder

    def leave_out(unreadable: str) -> None:
        console.complain(f"{unreadable}; left out")

    source = image_folder(selection.data)
    return Photos(
        source,
        class_folders(source),
        selection.images_per_class,
        leave_out if selection.skip_unreadable else None,
    )


def inputs_of(model: Path | None, selection: Selection) -> list[Path | None]:
    """List the files that the command reads, and must not overwrite."""
    inputs = [model, selection.weights, selection.data, selection.preprocessing]
    if selection.classes is not None and is_file(Path(selection.classes)):
        inputs.append(Path(selection.classes))
    return inputs
