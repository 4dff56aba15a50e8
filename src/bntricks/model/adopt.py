"""A model around what was trained elsewhere. A network's classes get names, and old images fill the
memory as the method would have kept them; a learner is copied with all it knows."""

import copy
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from bntricks.batch import Batch
from bntricks.errors import InvalidOptions, UserError
from bntricks.model.create import build, protocol
from bntricks.model.file import check_storable
from bntricks.model.history import today
from bntricks.model.metadata import LearnedTask, Metadata, Preprocessing
from bntricks.model.model import Model
from bntricks.model.options import IMAGE_SIZE, Protocol
from bntricks.model.samples import ClassSamples, check_name, check_samples, gather
from bntricks.networks.head import last_linear, return_scores
from bntricks.recipes.lesson import Lesson
from bntricks.streams import Images, View
from bntricks.system.devices import near
from bntricks.training.learner import Learner
from bntricks.training.state import previous


def adopt(
    net: nn.Module,
    *,
    classes: Sequence[str],
    memory: Any = None,
    test: Any = None,
    capacity: int = 500,
    view: View | None = None,
    image_size: int = IMAGE_SIZE,
    device: str | None = None,
    **options: Any,
) -> Model:
    """A model that goes on with a trained network, of which it takes a copy.

    `classes` name the outputs of its last linear layer, in order. `memory` are images of these
    classes to rehearse, of which `capacity` are kept, the same number of each class as far as
    there are; `test` are others, which it was not trained on, to measure what it still knows.
    Both are a folder of class folders, a mapping from class names to samples, or a pair of
    samples and class names. `view` is how the network was given images, as
    `View(mean, std, pad=4, flip=True)`; without one, samples must be network inputs already.
    It computes on `device`, or else where the network is. `options` are those of `Protocol`.
    """
    names = _checked_names(net, classes)
    check_storable(net)
    _check_trainable(net)
    old, held_out = (
        None if given is None else _in_order(_gathered(given, image_size), names)
        for given in (memory, test)
    )
    sample = next((images.x for images in (old, held_out) if images is not None), None)
    shape = (3, image_size, image_size) if sample is None else tuple(sample.shape[1:])
    metadata = Metadata.of(
        **protocol(Protocol.of(memory=capacity, **options)),
        network=None,
        shape=shape,
        view=None if view is None else _checked_view(view, shape),
        taught=(LearnedTask(classes=names, images=0, epochs=0, date=today()),),
    )
    learner = build(metadata, return_scores(copy.deepcopy(net)), len(names), device)
    state = learner.state
    state.lesson = Lesson(1, tuple(range(len(names))))
    if state.method.memory is not None:
        if old is None:
            raise UserError(
                f"{metadata.method} rehearses old images: give some as memory=, or choose a method "
                "without a memory, such as lwf"
            )
        check_samples(metadata, old.x)
        samples = Batch(near(old.x, learner.device), old.y, ids=torch.arange(len(old)))
        state.method.memory.adopt(state, samples)
    if state.method.teacher == "previous":
        state.teacher = previous(learner.net)
    learner.net.eval()
    return Model(learner, metadata, held_out)


def from_learner(learner: Learner, metadata: Metadata, labels: Sequence[int]) -> Model:
    """A copy of this learner that the metadata describes, on the CPU. `labels` are the learner's
    own for the classes described, in their order; the outputs of others are left out."""
    order = torch.tensor(labels)
    net = copy.deepcopy(learner.net).cpu()
    _select_outputs(net, order)
    own = build(metadata, net, len(labels), "cpu")
    old = sum(map(len, metadata.groups[:-1]))
    lesson = Lesson(len(metadata.taught), tuple(range(old, len(labels))), tuple(range(old)))
    state, theirs = own.state_dict(), learner.state_dict()
    state |= {"generators": theirs["generators"], "lesson": asdict(lesson)}
    if own.method.teacher == "previous":
        state["teacher"] = state["net"]
    if theirs["memory"] is not None:
        state["memory"] = _relabelled(theirs["memory"], order)
    if learner.state.fitted and own.method.classify.fits == "task end":
        state["fitted"] = learner.state.fitted
    own.load_state_dict(state)
    own.net.eval()
    return Model(own, metadata)


def _gathered(given: Any, size: int) -> ClassSamples:
    return given if isinstance(given, ClassSamples) else gather(given, size=size)


def _checked_names(net: nn.Module, classes: Sequence[str]) -> tuple[str, ...]:
    names = tuple(classes)
    for name in names:
        check_name(name)
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise UserError(f"classes name {twice!r} twice: give each output a name of its own")
    try:
        outputs = last_linear(net).out_features
    except ValueError as error:
        raise UserError(f"cannot adopt this {type(net).__name__}: {error}") from None
    if len(names) != outputs:
        given = "is 1 class name" if len(names) == 1 else f"are {len(names)} class names"
        raise UserError(
            f"there {given}, and the network's last linear layer has {outputs} outputs: name each "
            "of them, in order",
            option="classes",
        )
    return names


def _check_trainable(net: nn.Module) -> None:
    """Refuse, before any training, a network that cannot be trained."""
    kinds = {each.dtype for each in net.parameters() if each.is_floating_point()}
    if other := sorted(str(kind).removeprefix("torch.") for kind in kinds - {torch.float32}):
        raise UserError(
            f"the network's parameters are {other[0]}, and models are trained in float32: call "
            ".float() where it is built"
        )
    if not any(each.requires_grad for each in net.parameters()):
        raise UserError(
            "all parameters of the network are frozen, so it cannot be taught: call "
            ".requires_grad_() where it is built"
        )


def _checked_view(view: View, shape: tuple[int, ...]) -> Preprocessing:
    if len(shape) != 3:
        raise UserError(f"a view is for images, and a sample is {list(shape)}: leave it out")
    for name, values in (("mean", view.mean), ("std", view.std)):
        if len(values) not in (1, shape[0]):
            raise UserError(
                f"images have {shape[0]} channels: give a value for each, or one for all",
                option=name,
                value=" ".join(f"{value:g}" for value in values),
            )
    try:
        return Preprocessing.of(**asdict(view))
    except InvalidOptions as error:  # of three channels, perhaps
        raise error.mistakes[0] from None


def _in_order(samples: ClassSamples, names: Sequence[str]) -> Images:
    """Label old images by the network's outputs."""
    unknown = [name for name in samples.names if name not in names]
    if unknown:
        raise UserError(
            f"{unknown[0]!r} is not a class the network knows: it knows "
            f"{', '.join(map(repr, names))}"
        )
    output = torch.tensor([names.index(name) for name in samples.names])
    return Images(samples.train.x, output[samples.train.y])


def _select_outputs(net: nn.Module, order: Tensor) -> None:
    head = last_linear(net)
    head.weight = nn.Parameter(head.weight.detach()[order])
    if head.bias is not None:
        head.bias = nn.Parameter(head.bias.detach()[order])
    head.out_features = len(order)


def _relabelled(memory: dict[str, Any], order: Tensor) -> dict[str, Any]:
    """Copy a memory, with new labels for its classes."""
    stored = {k: v.cpu().clone() if isinstance(v, Tensor) else v for k, v in memory.items()}
    places = torch.full((int(order.max()) + 1,), -1).index_copy(0, order, torch.arange(len(order)))
    filled = stored["filled"]
    stored["y"][:filled] = places[stored["y"][:filled]]
    if stored["logits"] is not None:
        stored["logits"] = stored["logits"][:, order]
    return stored
