"""Weights from a file, of which only tensors are read."""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bntricks.errors import UserError, abbreviated
from bntricks.files import parse_tensors, read_errors, regular_bytes, shown


def load_weights(net: nn.Module, path: Path) -> None:
    """Fill the network from safetensors or a state dict by `torch.save`; only tensors are read."""
    state, own = _read_state(path), net.state_dict()
    if not own:
        raise UserError("the network has no weights to load: give one that has layers")
    # Old checkpoints lack the batch counter, which no prediction needs.
    missing = [k for k in own if k not in state and not k.endswith("num_batches_tracked")]
    extra = [k for k in state if k not in own]
    for problem, keys in (("lacks", missing), ("also has", extra)):
        if keys:
            raise UserError(
                f"{shown(path)} does not fit the network: it {problem} {abbreviated(keys, 3)}; the "
                f"network's own names are like {next(iter(own))!r}"
            )
    for key, value in state.items():
        _check_tensor(key, value, own[key], path)
    net.load_state_dict(state, strict=False)


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


def _read_state(path: Path) -> dict[str, Tensor]:
    with read_errors(path):
        content = regular_bytes(path)
    try:
        return parse_tensors(content)[0]
    except ValueError:
        state = _read_torch_file(path, content)
    for key in ("state_dict", "model"):
        if isinstance(state.get(key), Mapping):
            state = state[key]
    if not state or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in state.items()):
        raise UserError(f"{shown(path)} is not a state dict: save net.state_dict() alone")
    # DataParallel puts this before every name.
    return {key.removeprefix("module."): value for key, value in state.items()}


def _read_torch_file(path: Path, content: bytes) -> Mapping[str, Any]:
    try:
        state = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:  # a damaged or foreign file makes torch raise nearly anything
        state = None
    if isinstance(state, Mapping):
        return state
    raise UserError(
        f"{shown(path)} holds no weights that can be read: give safetensors, or a state dict saved "
        "by torch.save; the file may be of another kind, or cut short"
    )
