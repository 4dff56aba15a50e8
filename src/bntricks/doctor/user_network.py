"""A network of the user's own, built by a function of theirs and filled from a file of weights."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import safetensors.torch as safe
import torch
from torch import Tensor, nn

from bntricks.doctor.groups import BatchesByGroup
from bntricks.doctor.images import Photos, check_accepts, image_groups, normalisation
from bntricks.errors import UserError, abbreviated
from bntricks.files import commit, parse_tensors, reading, regular_bytes, shown, writing
from bntricks.networks.head import scores_in
from bntricks.networks.imported import called
from bntricks.system.devices import place


def open_network(
    net: str,
    weights: Path | None,
    photos: Photos,
    groups: Sequence[Sequence[str]],
    classes: Sequence[str],
    *,
    image_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    device: str = "cpu",
) -> tuple[nn.Module, BatchesByGroup]:
    """Build the network, and read the images to examine it with. Without a file, its weights are
    those that its function gives it."""
    view, folders = normalisation(mean, std), photos.folders
    if not groups:
        raise UserError(
            "it is required for a network of your own: list the classes in the order they were "
            f"learned, the newest last, such as '{folders[0]}' '{','.join(folders[1:])}'",
            option="groups",
        )
    batches_by_group = image_groups(photos, groups, classes, view, size=image_size)
    network = called(net)
    if weights is not None:
        load_weights(network, weights)
    network = place(network, torch.device(device))
    scores = scores_in(check_accepts(network, batches_by_group, adjustable=True))
    if isinstance(scores, Tensor) and scores.ndim == 2 and scores.shape[1] != len(classes):
        namers = "the folders name" if list(classes) == list(folders) else "the list names"
        raise UserError(
            f"the network has {scores.shape[1]} output{'s' * (scores.shape[1] != 1)} and {namers} "
            f"{len(classes)} class{'es' * (len(classes) != 1)}: name all outputs, in their order",
            remedy="classes",
        )
    return network, batches_by_group


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


def save_weights(net: nn.Module, path: Path) -> None:
    """Write the state dict as safetensors, whole or not at all."""
    # Clones, as safetensors refuses tensors that share memory.
    state = {key: value.detach().cpu().clone() for key, value in net.state_dict().items()}
    with writing(path):
        commit({path: safe.save(state)})


def _read_state(path: Path) -> dict[str, Tensor]:
    with reading(path):
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
