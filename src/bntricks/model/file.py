"""A model as one safetensors file that anyone can read: weights and φ under `net.`, and beside
them, unless left out, the memory, the generators and the held-out images, or what a frozen trunk
has in place of images. What it says about itself
is JSON in the file's metadata, with a checksum of that and of every tensor. Nothing in it is ever
unpickled, and nothing is believed unchecked.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import safetensors.torch as safe
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from bntricks.errors import PlannedError, UserError, first_mistake
from bntricks.files import (
    parse_json,
    parse_tensors,
    read_errors,
    regular_bytes,
    remove_leftovers,
    shown,
)
from bntricks.methods import make
from bntricks.model.create import build
from bntricks.model.heads import Statistics
from bntricks.model.history import checksum
from bntricks.model.metadata import FORMAT, Metadata
from bntricks.model.model import Model
from bntricks.model.pretrained import Frozen, prepared, serve
from bntricks.networks.backbones import find_backbone
from bntricks.networks.head import grow, keep_outputs, last_linear, return_scores
from bntricks.networks.registry import channels_last
from bntricks.networks.resnet import ResNet
from bntricks.recipes.lesson import Lesson
from bntricks.streams import Images
from bntricks.training.checkpoint import Checkpoints
from bntricks.training.optimisers import OPTIMISERS
from bntricks.training.schedules import SCHEDULES

KEY = "bntricks"
"""Of the JSON in the file's metadata."""

Tensors = dict[str, Tensor]
FEATURES = ("stored", "tests", "seen")
"""Of images that a frozen trunk was taught with, by their section."""


class UnusableError(PlannedError):
    """The reason why a file cannot be used, for a message that names it."""


def save(model: Model, path: Path, *, memory: bool = True, keep: int | Path | None = None) -> None:
    """Write a model, whole or not at all, in the way of `replace_model`."""
    from bntricks.model.earlier import replace_model  # which reads model files

    content, own = packed(model, memory=memory)
    replace_model(path, content, keep=keep)
    model.checksum = own


def packed(model: Model, *, memory: bool = True) -> tuple[bytes, str]:
    """Pack a model into the content of its file; also return its checksum."""
    description, tensors = contents(model, memory=memory)
    content = packed_parts(description, tensors)
    return content, description["checksum"]


def packed_parts(description: dict[str, Any], tensors: Tensors) -> bytes:
    """Pack a description, to which the checksum is added, and tensors."""
    description["checksum"] = checksum(description, tensors)
    return safe.save(tensors, {KEY: json.dumps(description)})


def contents(model: Model, *, memory: bool = True) -> tuple[dict[str, Any], Tensors]:
    """Read a model's metadata and tensors from its file."""
    check_storable(model.net)
    learner, metadata = model.learner, model.metadata
    complete = memory and metadata.with_memory
    changes: dict[str, Any] = {"format": FORMAT, "with_memory": complete}
    state = learner.state_dict()
    tensors = _under("net", state["net"])
    if complete:
        tensors |= _under("generators", state["generators"])
        if (frozen := model.frozen) is not None:
            for name in FEATURES:
                images = getattr(frozen, name)
                tensors |= {f"{name}.features": images.x, f"{name}.labels": images.y}
            if frozen.stored_images is not None and frozen.test_images is not None:
                kept_images = {"stored": frozen.stored_images, "tests": frozen.test_images}
                tensors |= {f"{name}.images": x for name, x in kept_images.items()}
        if model.held_out is not None:
            tensors |= {"tests.x": model.held_out.x, "tests.y": model.held_out.y}
        if (stored := state["memory"]) is not None and model.frozen is None:
            kept = {name: value for name, value in stored.items() if isinstance(value, Tensor)}
            filled = stored["filled"]
            tensors |= _under("memory", {name: value[:filled] for name, value in kept.items()})
            changes["offered"] = stored["offered"]
    else:
        learner.fit()
        fitted = dict(learner.state.fitted)
        if "means" in fitted:
            fitted["values"] = fitted.pop("means")
        tensors |= _under("means", fitted)
    if model.frozen is not None:
        tensors |= _under("statistics", model.frozen.statistics.state_dict())
        tensors["known.highest"] = model.frozen.highest
    description = metadata.model_copy(update=changes).model_dump(mode="json")
    # Views of one storage would be refused, so each tensor is copied.
    copies = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    return description, copies


def lesson_file(path: Path) -> Path:
    """Return the hidden file beside a model's that keeps a lesson under way."""
    target = Path(os.path.realpath(path))
    return target.with_name(f".{target.name}.lesson")


def forget(path: Path) -> None:
    """Remove such a lesson, with its images and the remains of killed writers. Nobody may be
    teaching this model."""
    file = lesson_file(path)
    Checkpoints(file.parent, {}, names=(file.name,)).remove()
    remove_leftovers(file)


def check_storable(net: nn.Module) -> None:
    """Refuse, before any training, a network whose state cannot be saved."""
    for name, value in net.state_dict().items():
        if not isinstance(value, Tensor):
            raise UserError(
                f"the network's state holds {shown(name)!r}, which is not a tensor, and a model "
                "file holds tensors only: keep it in a buffer (register_buffer), or build the "
                "network without get_extra_state"
            )


def load(
    path: Path, *, net: nn.Module | Callable[[], nn.Module] | None = None, device: str = "cpu"
) -> Model:
    """Load the model in a file. `net` is the network of an adopted one, or a function that builds
    it."""
    with usable(path):
        metadata, tensors, own = _opened(path)
        network = _network(metadata, net, _section(tensors, "net"))
        model = _restored(network, metadata, tensors, device)
    model.checksum = own
    return model


def opened(path: Path) -> tuple[Metadata, Tensors, str]:
    """Read the metadata, the tensors and the checksum of a model file."""
    with usable(path):
        return _opened(path)


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Name the file that cannot be used."""
    try:
        yield
    except UnusableError as error:
        raise UserError(
            f"cannot use the model {shown(path)}: {error.message}", remedy=error.remedy
        ) from None


def read_weights(path: Path) -> tuple[tuple[str, ...], Tensors]:
    """Read the class of each output, and the network's weights and statistics."""
    metadata, tensors, _ = opened(path)
    return metadata.classes, _section(tensors, "net")


def _opened(path: Path) -> tuple[Metadata, Tensors, str]:
    with read_errors(path):
        content = regular_bytes(path)
    try:
        tensors, header = parse_tensors(content)
    except ValueError as error:
        raise UnusableError(f"{error}; give a file that bntricks wrote") from None
    description = header.get(KEY)
    if description is None:
        raise UnusableError("it holds tensors, but was not made by bntricks; adopt it in Python")
    try:
        values = parse_json(description)
        version = values.get("format")
        if version not in (1, 2, FORMAT):
            raise UnusableError(
                f"its format is {shown(str(version))}, this version reads 1 to {FORMAT}; "
                "update bntricks"
            )
        signed = values.pop("checksum", None)
        own = checksum(values, tensors)
        if version != 1 and signed != own:
            raise UnusableError("its checksum does not match: it is damaged; use a copy of it")
        metadata = Metadata.model_validate(values)
        make(metadata.method, **metadata.hyper)
        OPTIMISERS.find(metadata.optimiser), SCHEDULES.find(metadata.schedule)
    except (ValidationError, ValueError, AttributeError, RecursionError, UserError) as error:
        raise UnusableError(
            f"its description is not what bntricks writes ({_line(error)})"
        ) from None
    if len(set(metadata.classes)) < len(metadata.classes) or not metadata.classes:
        raise UnusableError("its class names are missing, or some are there twice")
    return metadata, tensors, own


def _line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return shown(first_mistake(error))
    return shown(str(error).splitlines()[0]) if str(error) else type(error).__name__


def _network(
    metadata: Metadata, given: nn.Module | Callable[[], nn.Module] | None, weights: Tensors
) -> nn.Module:
    """Build the network with the weights in the file; wrong shapes are refused first."""
    outputs = len(metadata.classes)
    if given is not None:
        net = given if isinstance(given, nn.Module) else given()
        if not isinstance(net, nn.Module):
            raise UnusableError(f"net gave a {type(net).__name__}, which is not a torch.nn.Module")
        try:
            head = last_linear(net)
        except ValueError as error:
            raise UnusableError(f"the network given does not fit it: {error}") from None
        check_storable(net)
        grow(return_scores(net), max(outputs, head.out_features), torch.Generator())
        keep_outputs(net, range(outputs))  # classes may have been removed
    elif metadata.backbone is not None:
        try:
            net = prepared(find_backbone(metadata.backbone.name)(False).net)
        except UserError as error:
            raise UnusableError(
                f"{error.message}; if its backbone is your own, import what registers it",
                remedy="import",
            ) from None
        serve(net, torch.zeros(outputs, last_linear(net).in_features), torch.zeros(outputs))
    elif metadata.network is not None:
        with torch.device("meta"):
            net = ResNet(outputs, **metadata.network.model_dump())
    else:
        raise UnusableError(
            "it holds an adopted network, whose code is not in the file: say what builds it",
            remedy="net",
        )
    check_weights(net.state_dict(), weights)
    net.load_state_dict(weights, assign=given is None)
    return channels_last(net) if given is None else net


def check_weights(wanted: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Refuse weights of another network, or damaged ones."""
    unmatched = sorted(set(wanted) ^ set(weights))
    if unmatched:
        whose = "lacks" if unmatched[0] in wanted else "has an unknown"
        raise UnusableError(f"it {whose} tensor {shown(unmatched[0])!r}; it is of another network")
    for name, want in wanted.items():
        tensor = weights[name]
        if (tensor.shape, tensor.dtype) != (want.shape, want.dtype):
            raise UnusableError(
                f"{shown(name)} is {list(tensor.shape)} of {tensor.dtype}, where its network and "
                f"classes need {list(want.shape)} of {want.dtype}"
            )
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise UnusableError(f"{shown(name)} holds numbers that are not finite")
        if name.endswith("running_var") and (tensor < 0).any():
            raise UnusableError(f"{shown(name)} holds variances below 0; it is damaged")


def _restored(net: nn.Module, metadata: Metadata, tensors: Tensors, device: str) -> Model:
    try:
        learner = build(metadata, net, len(metadata.classes), device)
    except UserError as error:
        raise UnusableError(
            f"its description is not what bntricks writes ({_line(error)})"
        ) from None
    old, every = sum(map(len, metadata.groups[:-1])), len(metadata.classes)
    lesson = Lesson(len(metadata.taught), tuple(range(old, every)), tuple(range(old)))
    state = learner.state_dict() | {"lesson": asdict(lesson)}
    held_out = frozen = None
    try:
        if learner.method.teacher == "previous":
            state["teacher"] = state["net"]
        if metadata.backbone is not None:
            frozen = _frozen(metadata, net, tensors)
        elif metadata.with_memory:
            held_out = _images(metadata, _section(tensors, "tests"))
            kept = _section(tensors, "memory")
            _images(metadata, kept)
            filled = len(kept.get("y", ()))
            counts = {"filled": filled, "offered": max(filled, metadata.offered)}
            state["memory"] = {**kept, "capacity": metadata.memory, **counts}
        if metadata.with_memory:
            state["generators"] = _section(tensors, "generators")
        if means := _section(tensors, "means"):
            classes = _labels(means["classes"], every)
            state["fitted"] = {"classes": classes, "means": means["values"]}
        learner.load_state_dict(state)
    except (KeyError, ValueError, RuntimeError, TypeError, IndexError) as error:
        raise UnusableError(f"its memory is not what bntricks writes ({_line(error)})") from None
    learner.net.eval()
    return Model(learner, metadata, held_out, frozen)


def _frozen(metadata: Metadata, net: nn.Module, tensors: Tensors) -> Frozen:
    classes, width = len(metadata.classes), last_linear(net).in_features
    statistics = Statistics.from_state(_section(tensors, "statistics"), classes, width)
    highest = tensors["known.highest"]
    if highest.dtype != torch.float32 or highest.dim() != 1 or not highest.isfinite().all():
        raise ValueError("scores of known images that are not numbers")
    frozen, parts = Frozen.empty(width), dict[str, Any]()
    for name in FEATURES if metadata.with_memory else ():
        part, like = _section(tensors, name), getattr(frozen, name).x
        x, y = part["features"], _labels(part["labels"], classes)
        if (x.dtype, x.shape) != (like.dtype, (len(y), *like.shape[1:])) or not x.isfinite().all():
            raise ValueError(f"features of {list(x.shape)}, where its network has {width}")
        parts[name] = Images(x, y)
        if metadata.backbone and metadata.backbone.keep_images and name != "seen":
            images = _images(metadata, {"x": part["images"], "y": y})
            parts[{"stored": "stored_images", "tests": "test_images"}[name]] = images and images.x
    return replace(frozen, statistics=statistics, highest=highest.sort().values, **parts)


def _images(metadata: Metadata, part: Tensors) -> Images | None:
    if not part:
        return None
    x, y = part["x"], _labels(part["y"], len(metadata.classes))
    kind = torch.float32 if metadata.view is None else torch.uint8
    if tuple(x.shape[1:]) != metadata.shape or x.dtype != kind or len(x) != len(y):
        raise ValueError(f"samples of {list(x.shape)} in place of {list(metadata.shape)}")
    return Images(x, y)


def _labels(y: Tensor, classes: int) -> Tensor:
    if y.dtype != torch.int64 or y.dim() != 1 or not ((y >= 0) & (y < classes)).all():
        raise ValueError(f"labels beyond its {classes} classes")
    return y


def _under(section: str, tensors: Mapping[str, Any]) -> Tensors:
    return {f"{section}.{name}": value for name, value in tensors.items()}


def _section(tensors: Tensors, section: str) -> Tensors:
    start = f"{section}."
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
