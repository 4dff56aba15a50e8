"""The part of `bnt learn` that begins with a network trained elsewhere."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from cyclopts import Parameter
from pydantic import Field

from bntricks.cli import console
from bntricks.cli.app import Switch, declare_flags
from bntricks.cli.models import build_network, read_images
from bntricks.errors import UserError
from bntricks.files import quoted, shown
from bntricks.model.options import NewModel
from bntricks.options import Interpolation, Option, Options
from bntricks.runs.config import class_names

if TYPE_CHECKING:
    from torch import Tensor

    from bntricks.model.model import Model

Numbers = Annotated[tuple[float, ...], Parameter(negative=(), consume_multiple=True)]
IMAGE_SIZE = 224


@declare_flags
class TrainedNetwork(Options):
    """A network that was trained elsewhere, to continue with."""

    shown_in: ClassVar[str] = "Trained network"

    backbone: str | None = None
    """A pretrained network whose features are used as they are, by name:
    `efficientnet-lite0`, `timm:NAME`, `torchvision:NAME`, or one that your --import registers."""
    classes: str | None = None
    """Of a network of your own (--net): its classes in the order of its outputs, as a
    file with a name on each line, as 'cat,dog', or as a JSON list."""
    weights: Path | None = None
    """Its weights: safetensors, or a state dict saved by torch.save [default: those that --net
    returns it with]."""
    old_images: Path | None = None
    """Images of the classes it knows, in class folders, to rehearse; --memory of them are kept."""
    old_tests: Annotated[Path | None, Option(rare=True)] = None
    """Other images of these classes, which it was not trained on, to measure what it still knows;
    they are kept in the file."""
    preprocessing: Path | None = None
    """JSON with its image size, mean and standard deviation: preprocessor_config.json of Hugging
    Face, config.json of timm, or image_size, mean and std; of a backbone, crop and interpolation
    too."""
    mean: Annotated[Numbers, Option(rare=True)] = ()
    """Mean of the pixels in [0, 1] that it was trained with, per channel. Required with --net,
    unless --preprocessing says it."""
    std: Annotated[Numbers, Option(rare=True)] = ()
    """Their standard deviation, likewise."""
    crop: Annotated[float | None, Field(gt=0.1, le=1), Option(rare=True)] = None
    """With --backbone: the share of an image's centre square that it sees [default: what its
    weights say]."""
    interpolation: Annotated[Interpolation | None, Option(rare=True)] = None
    """With --backbone: how images are resized [default: what its weights say]."""
    keep_images: Switch = False
    """With --backbone: keep images in the file, as many as --memory and those held out, which
    --tune needs. Without it the file holds no image."""


def pretrained(network: TrainedNetwork, new: NewModel, device: str) -> Model:
    """Make a model on the backbone's frozen trunk; it knows no classes yet."""
    from bntricks.model.model import Model
    from bntricks.model.preprocessing import read_preprocessing

    for name in ("width", "blocks", "stages", "classes", "old_images", "old_tests"):
        if name in (*new.given(), *network.given()):
            raise UserError("it is not for a --backbone: leave it out", option=name)
    told = None
    if network.preprocessing is not None:
        told = read_preprocessing(network.preprocessing)
    shown_how = network.model_dump(
        include={"weights", "mean", "std", "crop", "interpolation", "keep_images"},
        exclude_unset=True,
    )
    return Model.create(
        backbone=network.backbone,
        preprocessing=told,
        image_size=new.image_size,
        device=device,
        **shown_how,
        **in_python(new),
    )


def in_python(new: NewModel) -> dict[str, Any]:
    """Return the given options by their names in Python."""
    options = new.model_dump(include=set(new.given()) - {"image_size"})
    if "batch" in options:
        options["memory_batch"] = new.batch
    if "augment" in options:
        options["augment"] = new.augment == "standard"
    return options


def adopted(
    net: str, network: TrainedNetwork, new: NewModel, device: str, skip_unreadable: bool
) -> Model:
    """Make a model around the trained network that this function builds."""
    from bntricks.model.model import Model
    from bntricks.model.samples import gather
    from bntricks.networks.weights import load_weights
    from bntricks.streams import View

    for name in ("width", "blocks", "stages"):
        if name in new.given():
            raise UserError("it is for our own ResNet: leave it out with --net", option=name)
    for name in ("crop", "interpolation", "keep_images"):
        if name in network.given():
            raise UserError("it is for a --backbone: leave it out with --net", option=name)
    if network.classes is None:
        raise UserError(
            "missing: name the classes of the trained network, in the order of its outputs; for "
            "other classes than these, begin with its features, as a --backbone",
            option="classes",
        )
    size, mean, std = image_input(network.preprocessing, new.image_size, network.mean, network.std)
    names = listed_classes(network.classes)
    module = build_network(net)
    if network.weights is not None:
        load_weights(module, network.weights)
    memory, tests = (
        None if folder is None else read_images(gather, folder, size=size, skip=skip_unreadable)
        for folder in (network.old_images, network.old_tests)
    )
    options = in_python(new) | {"capacity": new.memory}
    augment = options.pop("augment", True)
    options.pop("memory", None)  # the name of old images
    try:
        model = Model.adopt(
            module.eval(),
            classes=names,
            memory=memory,
            test=tests,
            view=View(mean, std, pad=size // 8 if augment else 0, flip=augment),
            image_size=size,
            device=device,
            **options,
        )
    except UserError as error:
        if error.option != "classes" or names != [network.classes]:
            raise
        message = f"{error.message} (no file {shown(network.classes)!r} exists)"
        raise UserError(message, option="classes") from None
    _check_scores(model)
    _hint_at_order(model)
    return model


def image_input(
    preprocessing: Path | None, image_size: int | None, mean: Numbers, std: Numbers
) -> tuple[int, Numbers, Numbers]:
    """Return image size, mean and standard deviation from the options."""
    from bntricks.model.preprocessing import read_preprocessing

    if preprocessing is None:
        if not (mean and std):
            raise UserError(
                "it is required for a network of your own, with --std or by --preprocessing: with "
                "a wrong one, statistics look wrong that are not; many networks for photographs "
                "were trained with --mean 0.485 0.456 0.406 --std 0.229 0.224 0.225 (ImageNet), "
                "and pixels from 0 to 1 are --mean 0 0 0 --std 1 1 1",
                option="std" if mean else "mean",
            )
        return image_size or IMAGE_SIZE, mean, std
    if mean or std:
        raise UserError(
            "it has mean and standard deviation: leave those out", option="preprocessing"
        )
    told = read_preprocessing(preprocessing)
    return image_size or told.size or IMAGE_SIZE, told.mean, told.std


def listed_classes(text: str) -> list[str]:
    """Return the class names in this file, or in the text itself."""
    from bntricks.model.preprocessing import read_class_names

    path = Path(text)
    looks_like_a_file = path.suffix in (".txt", ".json") or len(path.parts) > 1
    looks_like_names = "," in text or text.lstrip().startswith("[")
    if is_file(path) or (looks_like_a_file and not looks_like_names):
        return read_class_names(path)
    return class_names(text, "classes")


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a long list of names is no name of a file
        return False


def _check_scores(model: Model) -> None:
    """Refuse, before any training, a network that does not take such images, gives no scores, or
    cannot be trained or grown."""
    import torch

    from bntricks.networks.head import grow
    from bntricks.networks.imported import summary
    from bntricks.norm import mode
    from bntricks.system.devices import forked_generators

    black = torch.zeros(2, *model.metadata.shape, dtype=torch.uint8)
    x, outputs = model.view(black, None).to(model.learner.device), len(model.classes)
    net = copy.deepcopy(model.net)
    with mode(net, training=False), torch.no_grad():
        try:
            scores = net(x)
        except Exception as error:
            raise _not_accepted(x, error) from error
    _check_shape(scores, outputs)
    with mode(net, training=True), forked_generators([x.device]):
        try:
            scores = net(x)
            if isinstance(scores, torch.Tensor):
                torch.autograd.backward(scores.sum())
        except Exception as error:
            raise UserError(f"the network cannot be trained: {summary(error)}") from error
    _check_shape(scores, outputs, "in training mode ")
    grow(net, outputs + 1, torch.Generator())
    try:
        with mode(net, training=False), torch.no_grad():
            fits = net(x).shape[1] == outputs + 1
    except RuntimeError:  # of shapes that do not go together any more
        fits = False
    if not fits:
        raise UserError(
            "the network's scores are not those of its last linear layer alone, so it cannot get "
            "new classes: give a function that builds it with one classifier"
        )


def _not_accepted(x: Tensor, error: Exception) -> UserError:
    from bntricks.networks.imported import summary

    reason = f"the network cannot take images of {list(x.shape[1:])}: {summary(error)}"
    if "channels" in str(error):
        return UserError(
            f"{reason}; it is given colour images, so its first layer takes 3 channels"
        )
    return UserError(f"{reason}; give a different size", remedy="image_size")


def _check_shape(scores: object, outputs: int, when: str = "") -> None:
    shape = getattr(scores, "shape", None)
    given = f"a {type(scores).__name__}" if shape is None else list(shape)
    if given != [2, outputs]:
        raise UserError(
            f"{when}the network returns {given} for two images, not scores of {[2, outputs]}: give "
            "a function that builds one whose forward returns a score for each class"
        )


def _hint_at_order(model: Model) -> None:
    """Warn before training if the network's answers fit its classes in another order."""
    from bntricks.doctor.verdict import fitting_order
    from bntricks.model.summary import answers
    from bntricks.streams import Images

    images, memory = model.held_out, model.learner.memory
    if images is None and memory is not None and memory.x is not None:
        images = Images(memory.x[: len(memory)].cpu(), memory.y[: len(memory)])
    answered = answers(model, images)
    order = fitting_order([Counter(answered)]) if answered else None
    if order is not None:
        fitting = json.dumps([model.classes[label] for label in order.labels], ensure_ascii=False)
        console.complain(
            f"the network is right on {order.accuracy:.1f}% of the old images, no better than "
            f"guessing, and would be on {order.fitting_accuracy:.1f}% if its outputs were "
            f"--classes {quoted(fitting)}: check their order"
        )
