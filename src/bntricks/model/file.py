"""A learner as one safetensors file that anyone can read: weights and φ under `net.`, and beside
them, unless left out, the memory, the generators and the test images. What it says about itself
is JSON in the file's metadata. Nothing in it is ever unpickled, and nothing is believed unchecked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch as safe
import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from torch import Tensor, nn

from bntricks.errors import UserError
from bntricks.files import write_atomically
from bntricks.methods import make
from bntricks.model.create import equip
from bntricks.model.metadata import FORMAT, About
from bntricks.networks.head import class_means, grow
from bntricks.networks.resnet import ResNet, classifier
from bntricks.recipes.language import Lesson
from bntricks.seeds import Generators
from bntricks.streams import Images
from bntricks.streams.files.source import reading, shown
from bntricks.training.learner import Learner
from bntricks.training.snapshot import previous

KEY = "bntricks"
"""Of the JSON in the metadata."""

Tensors = dict[str, Tensor]


class WrongError(Exception):
    """Why a file cannot be used, for a message that names it."""


def save(learner: Learner, path: Path, *, memory: bool = True) -> None:
    """Write a learner, whole or not at all."""
    about = learner.about
    if about is None:
        raise UserError("this learner has no class names to save: make it with Learner.adopt")
    whole = memory and about.with_memory
    tensors = _under("net", learner.net.state_dict())
    if whole:
        tensors |= _under("generators", learner.generators.state_dict())
        if learner.tests is not None:
            tensors |= {"tests.x": learner.tests.x, "tests.y": learner.tests.y}
        if learner.memory is not None:
            tensors |= _under("memory", learner.memory.contents())
            about = about.but(offered=learner.memory.offered)
    elif learner.method.classify == "nearest class mean":
        stored = bool(learner.memory)
        found = class_means(learner.state) if stored else learner.class_means()
        tensors |= {"means.classes": found[0], "means.values": found[1]}
    said = json.dumps(about.but(with_memory=whole).model_dump(mode="json"))
    try:
        # Views of one storage would be refused, so each tensor is copied.
        apart = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
        write_atomically(path, safe.save(apart, {KEY: said}))
    except OSError as error:
        raise UserError(f"cannot write {shown(path)}: {error.strerror or error}") from None


def load(
    path: Path, *, net: nn.Module | Callable[[], nn.Module] | None = None, device: str = "cpu"
) -> Learner:
    """The learner in a file. `net` is the network of an adopted one, or what builds it."""
    with reading(path):
        content = path.read_bytes()
    try:
        about, tensors = _opened(content)
        network = _network(about, net, _section(tensors, "net"))
        return _restored(network, about, tensors, device)
    except WrongError as error:
        raise UserError(f"cannot use the model {shown(path)}: {error}") from None


def _opened(content: bytes) -> tuple[About, Tensors]:
    try:
        tensors = safe.load(content)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, OverflowError):
        raise WrongError(
            "it is no safetensors file, or not a whole one; make one with bnt learn"
        ) from None
    length = int.from_bytes(content[:8], "little")
    said = json.loads(content[8 : 8 + length]).get("__metadata__", {}).get(KEY)
    if said is None:
        raise WrongError("it holds tensors, but was not made by bntricks; adopt it in Python")
    try:
        found = json.loads(said)
        made_by = found.get("format")
        if made_by != FORMAT:
            raise WrongError(f"its format is {made_by}, this version reads {FORMAT}; update it")
        about = About.model_validate(found)
        make(about.method, **about.hyper)
    except (ValidationError, ValueError, AttributeError, RecursionError, UserError) as error:
        raise WrongError(f"its description is not what bntricks writes ({_line(error)})") from None
    if len(set(about.classes)) < len(about.classes) or not about.classes:
        raise WrongError("its class names are missing, or some are there twice")
    return about, tensors


def _line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return shown(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    return shown(str(error).splitlines()[0]) if str(error) else type(error).__name__


def _network(
    about: About, given: nn.Module | Callable[[], nn.Module] | None, found: Tensors
) -> nn.Module:
    """The network with the weights of the file; strange shapes are refused before room is made."""
    outputs = len(about.classes)
    if given is not None:
        net = given if isinstance(given, nn.Module) else given()
        if not isinstance(net, nn.Module):
            raise WrongError(f"net gave a {type(net).__name__}, which is no torch.nn.Module")
        grow(net, max(outputs, classifier(net).out_features), torch.Generator())
    elif about.network is not None:
        with torch.device("meta"):
            net = ResNet(outputs, **about.network.model_dump())
    else:
        raise WrongError(
            "it holds an adopted network, whose code is not in the file; load it in Python with "
            "Learner.load(path, net=the function that builds it), or give --net module:function"
        )
    wanted = net.state_dict()
    _check_weights(wanted, found)
    if given is None:
        net.load_state_dict(found, assign=True)
        return net
    net.load_state_dict(found)
    return net


def _check_weights(wanted: Mapping[str, Tensor], found: Tensors) -> None:
    strange = sorted(set(wanted) ^ set(found))
    if strange:
        whose = "lacks" if strange[0] in wanted else "has a strange"
        raise WrongError(f"it {whose} tensor {shown(strange[0])!r}; it is of another network")
    for name, want in wanted.items():
        tensor = found[name]
        if (tensor.shape, tensor.dtype) != (want.shape, want.dtype):
            raise WrongError(
                f"{shown(name)} is {list(tensor.shape)} of {tensor.dtype}, where its network and "
                f"classes need {list(want.shape)} of {want.dtype}"
            )
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise WrongError(f"{shown(name)} holds numbers that are not finite")


def _restored(net: nn.Module, about: About, tensors: Tensors, device: str) -> Learner:
    generators = Generators.of(about.seed)
    learner = equip(net, about, generators, device)
    old, new = sum(map(len, about.groups[:-1])), len(about.classes)
    lesson = Lesson(len(about.taught), tuple(range(old, new)), tuple(range(old)))
    learner.state.lesson = lesson
    try:
        if about.with_memory:
            generators.load_state_dict(_section(tensors, "generators"))
            learner.tests = _images(about, _section(tensors, "tests"))
            if learner.memory is not None:
                kept = _section(tensors, "memory")
                _images(about, kept)
                learner.memory.refill(kept, offered=about.offered)
        elif learner.method.classify == "nearest class mean":
            means = _section(tensors, "means")
            learner.means = _labels(means["classes"], new).to(device), means["values"].to(device)
    except (KeyError, ValueError, RuntimeError, TypeError, IndexError) as error:
        raise WrongError(f"its memory is not what bntricks writes ({_line(error)})") from None
    if learner.method.teacher == "previous":
        learner.state.teacher = previous(learner.net)
    learner.net.eval()
    return learner


def _images(about: About, part: Tensors) -> Images | None:
    if not part:
        return None
    x, y = part["x"], _labels(part["y"], len(about.classes))
    kind = torch.float32 if about.view is None else torch.uint8
    if tuple(x.shape[1:]) != about.shape or x.dtype != kind or len(x) != len(y):
        raise ValueError(f"samples of {list(x.shape)} in place of {list(about.shape)}")
    return Images(x, y)


def _labels(y: Tensor, classes: int) -> Tensor:
    if y.dtype != torch.int64 or y.dim() != 1 or not ((y >= 0) & (y < classes)).all():
        raise ValueError(f"labels that are none of {classes} classes")
    return y


def _under(section: str, tensors: Mapping[str, Any]) -> Tensors:
    strange = [name for name, value in tensors.items() if not isinstance(value, Tensor)]
    if strange:
        raise UserError(f"the network's state holds {strange[0]!r}, which is no tensor")
    return {f"{section}.{name}": value for name, value in tensors.items()}


def _section(tensors: Tensors, section: str) -> Tensors:
    start = f"{section}."
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
