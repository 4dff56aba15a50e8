"""The part of `bnt learn` that begins with a network trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import BaseModel, ConfigDict

from bntricks.cli import console
from bntricks.errors import UserError
from bntricks.runs.config import class_names

if TYPE_CHECKING:
    from bntricks.model import Model
    from bntricks.model.samples import ClassSamples

Numbers = Annotated[tuple[float, ...], Parameter(negative=(), consume_multiple=True)]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's, which most networks for photographs are trained with."""
IMAGE_SIZE = 224


class TrainedNetwork(BaseModel):
    """A network that was trained elsewhere, to go on with."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    classes: str | None = None
    """New model around a trained network (--net): its classes in the order of its outputs, as a
    file with a name on each line, as 'cat,dog', or as a JSON list."""
    weights: Path | None = None
    """Its weights: safetensors, or a state dict saved by torch.save [default: those that --net
    returns it with]."""
    old_images: Path | None = None
    """Images of the classes it knows, in class folders, to rehearse; --memory of them are kept."""
    old_tests: Path | None = None
    """Other images of these classes, which it was not trained on, to measure what it still knows;
    they are kept in the file."""
    preprocessing: Path | None = None
    """JSON with its image size, mean and standard deviation: preprocessor_config.json of Hugging
    Face, config.json of timm, or image_size, mean and std."""
    mean: Numbers = ()
    """Mean of the pixels in [0, 1] that it was trained with, per channel [default: ImageNet's]."""
    std: Numbers = ()
    """Their standard deviation, likewise."""

    def given(self) -> list[str]:
        """The options that were used."""
        return [name for name in type(self).model_fields if getattr(self, name) not in (None, ())]


def adopted(
    network: TrainedNetwork,
    *,
    net: str,
    image_size: int | None,
    augment: bool,
    skip_unreadable: bool,
    **how: Any,
) -> Model:
    """A model around the network. `how` are further keywords of `Model.adopt`."""
    from bntricks.doctor.user_network import load_weights
    from bntricks.model import Model
    from bntricks.model.preprocessing import ImageInput, read_preprocessing
    from bntricks.networks.imported import called
    from bntricks.streams import View

    if network.classes is None:
        raise UserError(
            "missing: name the classes of the trained network, in the order of its outputs",
            option="classes",
        )
    if network.preprocessing is not None and (network.mean or network.std):
        raise UserError(
            "it has mean and standard deviation: leave those out", option="preprocessing"
        )
    told = ImageInput(None, network.mean or MEAN, network.std or STD)
    if network.preprocessing is not None:
        told = read_preprocessing(network.preprocessing)
    size = image_size or told.size or IMAGE_SIZE
    names = _names(network.classes)
    console.complain(f"importing and running {net}")
    module = called(net)
    if network.weights is not None:
        load_weights(module, network.weights)
    memory, tests = (
        None if folder is None else _images(folder, size, skip_unreadable)
        for folder in (network.old_images, network.old_tests)
    )
    model = Model.adopt(
        module.eval(),
        classes=names,
        memory=memory,
        test=tests,
        view=View(told.mean, told.std, pad=size // 8 if augment else 0, flip=augment),
        image_size=size,
        **how,
    )
    _check_scores(model)
    return model


def _images(folder: Path, size: int, skip: bool) -> ClassSamples:
    from bntricks.model.samples import gather

    with console.reporting() as report:
        samples = gather(folder, size=size, skip=skip, report=report)
    for line in samples.unreadable:
        console.complain(f"{line}; left out")
    return samples


def _check_scores(model: Model) -> None:
    """Fail before any training if the network does not take such images, or gives no scores."""
    import torch

    from bntricks.doctor.images import check_accepts

    black = torch.zeros(2, *model.metadata.shape, dtype=torch.uint8)
    inputs = {"images": [(model.view(black, None), torch.zeros(2, dtype=torch.int64))]}
    check_accepts(model.net, inputs, hint="; give a different size", remedy="image_size")
    with torch.no_grad():
        scores = model.net(inputs["images"][0][0].to(model.learner.device))
    wanted = [2, len(model.classes)]
    given = list(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
    if given != wanted:
        raise UserError(
            f"the network returns {given} for two images, not scores of {wanted}: give a function "
            "that builds one whose forward returns a score for each class"
        )


def _names(text: str) -> list[str]:
    from bntricks.model.preprocessing import read_class_names

    path = Path(text)
    looks_like_a_file = path.suffix in (".txt", ".json") or len(path.parts) > 1
    if text.lstrip().startswith("[") or not (path.is_file() or looks_like_a_file):
        return class_names(text, "classes")
    return read_class_names(path)
