"""Weights from a checkpoint, of which only tensors and plain values are read, and the same
checkpoint with other weights.

A checkpoint may hold the network's state dict by itself or within others, under a prefix, beside an
optimiser, a configuration or a second network.
"""

import io
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch as safe
import torch
from torch import Tensor, nn

from bntricks.errors import UserError, abbreviated
from bntricks.files import commit, parse_tensors, read_errors, regular_bytes, shown, write_errors

CONTAINERS = ("state_dict", "model", "model_state_dict", "model_state", "net", "network", "weights")
"""Where in a checkpoint its state dict may be."""
ALLOWED = (Namespace,)
"""Classes besides tensors and plain values that a checkpoint may have: trainers store arguments."""
COMPILED = "_orig_mod."
"""torch.compile puts this into names, at any depth."""
WRAPPERS = re.compile(r"((module|model|net|network)\.)*")
"""DataParallel, Lightning and others put these before every name."""
SAFETENSORS = ".safetensors"
TORCH = (".pt", ".pth", ".ckpt", ".bin", ".tar")
"""Endings of files that torch.save writes."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A file of weights as it was read."""

    content: Any
    state: dict[str, Any]
    """The mapping within `content` that has the network's weights."""
    names: Mapping[str, str]
    """Where each weight of the network is in `state`."""
    metadata: Mapping[str, str] | None = None
    """Of safetensors; None if torch.save wrote the file."""


def load_weights(net: nn.Module, path: Path) -> Checkpoint:
    """Fill the network from safetensors or a file by `torch.save`, and return what was read."""
    own = net.state_dict()
    content, metadata = _read(path)
    if not own:
        raise UserError("the network has no weights to load: give one that has layers")
    states = list(_state_dicts(content))
    if not states:
        raise UserError(f"{shown(path)} is not a state dict: save net.state_dict() alone")
    found = [(state, *_names_in(state, own, path)) for state in states]
    fitting = (each for each in found if not _missing(each[1], own))
    state, names, prefix = next(fitting, found[0])
    _check_fit(state, names, prefix, own, path)
    values = {name: _shaped(state[key], own[name]) for name, key in names.items()}
    for name, value in values.items():
        _check_tensor(names[name], value, own[name], path)
    net.load_state_dict(values, strict=False)
    return Checkpoint(content, state, names, metadata)


def save_weights(net: nn.Module, checkpoint: Checkpoint | None, path: Path) -> None:
    """Write the network's weights, whole or not at all, in the layout of the checkpoint that they
    were read from: its names, and all else that it has. The ending of the path decides between
    safetensors and torch.save; without a known one, the checkpoint does."""
    own = {name: value.detach().cpu() for name, value in net.state_dict().items()}
    as_read = checkpoint is not None and checkpoint.metadata is None
    state: dict[str, Any] = dict(own)
    if checkpoint is not None:
        state = checkpoint.state
        for name, key in checkpoint.names.items():
            was = state[key]
            value = own[name].to(was.dtype).reshape(was.shape)
            if not torch.equal(value, was):  # else it stays where it may share memory
                state[key] = value.clone()
    with write_errors(path):
        if path.suffix.lower() in TORCH or (as_read and path.suffix.lower() != SAFETENSORS):
            file = io.BytesIO()
            torch.save(checkpoint.content if as_read and checkpoint else state, file)
            commit({path: file.getvalue()})
        else:
            # Clones, as safetensors refuses tensors that share memory.
            alone = {k: v.detach().cpu().contiguous().clone() for k, v in state.items()}
            metadata = None if checkpoint is None else dict(checkpoint.metadata or {})
            commit({path: safe.save(alone, metadata or None)})


def _state_dicts(content: Any, levels: int = 3) -> Iterator[dict[str, Any]]:
    """Yield every mapping of names to tensors in a checkpoint, the likeliest first."""
    if not isinstance(content, dict) or not levels:
        return
    if content and all(isinstance(k, str) and isinstance(v, Tensor) for k, v in content.items()):
        yield content
        return
    others = [key for key in content if key not in CONTAINERS]
    for key in (*CONTAINERS, *others):
        if key in content:
            yield from _state_dicts(content[key], levels - 1)


def _names_in(
    state: Mapping[str, Any], own: Mapping[str, Any], path: Path
) -> tuple[dict[str, str], str]:
    """Find the names in a file of as many of the network's weights as there are, and what stands
    before each."""
    in_file = {key.replace(COMPILED, ""): key for key in state}
    in_network = {name.replace(COMPILED, ""): name for name in own}
    prefixes = {""} | {
        key.removesuffix(name)
        for name in list(in_network)[:1]
        for key in in_file
        if key.endswith(f".{name}")
    }

    def under(prefix: str) -> dict[str, str]:
        return {n: in_file[prefix + k] for k, n in in_network.items() if prefix + k in in_file}

    fitting = [prefix for prefix in prefixes if not _missing(under(prefix), own)]
    usual = [prefix for prefix in fitting if WRAPPERS.fullmatch(prefix)]
    if len(fitting) > 1 and len(usual) != 1 and "" not in usual:
        raise UserError(
            f"{shown(path)} has several such networks, under "
            f"{abbreviated([repr(shown(each)) for each in sorted(fitting)], 5)}: save the state "
            "dict of one of them alone"
        )
    if fitting:
        prefix = "" if "" in usual else (usual or fitting)[0]
    else:
        prefix = max(sorted(prefixes), key=lambda each: len(under(each)))
    return under(prefix), prefix


def _missing(names: Mapping[str, str], own: Mapping[str, Any]) -> list[str]:
    # Old checkpoints lack the batch counter, which no prediction needs.
    return [k for k in own if k not in names and not k.endswith("num_batches_tracked")]


def _check_fit(
    state: Mapping[str, Any],
    names: Mapping[str, str],
    prefix: str,
    own: Mapping[str, Any],
    path: Path,
) -> None:
    """Refuse a file that lacks weights of the network, or has more beside them."""
    missing, known = _missing(names, own), set(names.values())
    extra = [k for k in state if k not in known and k.replace(COMPILED, "").startswith(prefix)]
    hint = ""
    if any("running_" in name for name in missing) and not any("running_" in k for k in state):
        hint = (
            "; it has no running statistics, as after BatchNorm was folded into the convolutions: "
            "give the file from before that"
        )
    for problem, keys in (("lacks", missing), ("also has", extra)):
        if keys:
            raise UserError(
                f"{shown(path)} does not fit the network: it {problem} {abbreviated(keys, 3)}; the "
                f"network's own names are like {next(iter(own))!r}{hint}"
            )


def _shaped(value: Tensor, own: Tensor) -> Tensor:
    """Give the weights of a 1×1 convolution and of a linear layer each other's shape."""
    alike = value.numel() == own.numel() and value.shape[:2] == own.shape[:2]
    plain = value.layout == torch.strided and {value.dim(), own.dim()} == {2, 4}
    return value.reshape(own.shape) if alike and plain else value


def _check_tensor(key: str, value: Tensor, own: Tensor, path: Path) -> None:
    if value.shape != own.shape:
        raise UserError(
            f"{shown(path)} does not fit the network: {shown(key)} is {list(value.shape)} in the "
            f"file and {list(own.shape)} in the network"
        )
    problem = None
    if value.is_meta:
        problem = "has a shape, but no values (a meta tensor)"
    elif value.layout != torch.strided or value.is_quantized:
        problem = "is sparse or quantised: save it as an ordinary tensor"
    elif _kind(value) != _kind(own):
        problem = f"holds {_kind(value)} numbers, where the network has {_kind(own)} ones"
    elif "running_" not in key and not _is_finite(value):
        problem = "holds NaN or infinity"
    if problem is not None:
        raise UserError(f"cannot use the weights {shown(path)}: {shown(key)} {problem}")


def _is_finite(tensor: Tensor) -> bool:
    """Whether all values are finite; float8 has no such operation."""
    return bool((tensor.float() if tensor.itemsize == 1 else tensor).isfinite().all())


def _kind(tensor: Tensor) -> str:
    """Return the kind of numbers; types of one kind are convertible, as float32 and bfloat16."""
    if tensor.is_complex() or tensor.is_floating_point():
        return "complex" if tensor.is_complex() else "floating-point"
    return "whole"


def _read(path: Path) -> tuple[Any, dict[str, str] | None]:
    """Return what is in the file and, of safetensors, their metadata."""
    with read_errors(path):
        content = regular_bytes(path)
    try:
        return parse_tensors(content)
    except ValueError:
        pass
    reason = "the file may be of another kind, or cut short"
    try:
        with torch.serialization.safe_globals(list(ALLOWED)):
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True), None
    except Exception as error:  # a damaged or foreign file makes torch raise nearly anything
        refused = re.findall(r"GLOBAL (\S+) (?:was not an allowed|whose module)", str(error))
        if refused and content.startswith((b"PK", b"\x80")):
            reason = f"it has a {shown(refused[0])}, and to read that would run its code"
    raise UserError(
        f"{shown(path)} holds no weights that can be read: give safetensors, or a state dict saved "
        f"by torch.save; {reason}"
    )
