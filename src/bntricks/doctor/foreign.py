"""A stranger's network: made by a function of theirs, filled from a file of weights."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import safetensors.torch as safe
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from bntricks.errors import UserError
from bntricks.files import write_atomically
from bntricks.norm import mode
from bntricks.streams.files.source import reading, shown


def make_network(where: str) -> nn.Module:
    """Import `package.module:factory`, from the working directory too, and call it."""
    factory = _factory(where)
    try:
        net = factory()
    except Exception as error:
        raise UserError(f"--net {where}: calling it raised {_said(error)}") from error
    if not isinstance(net, nn.Module):
        raise UserError(
            f"--net {where}: it returned a {type(net).__name__}, not a torch.nn.Module; give a "
            "function without arguments that returns the network"
        )
    return net


def load_weights(net: nn.Module, path: Path) -> None:
    """Fill the network from safetensors, or from a state dict saved by `torch.save`, of which
    nothing but tensors is read."""
    found = _state(path)
    own = net.state_dict()
    # Old checkpoints lack the batch counter, which no prediction needs.
    missing = [k for k in own if k not in found and not k.endswith("num_batches_tracked")]
    strange = [k for k in found if k not in own]
    for what, keys in (("lacks", missing), ("has in excess", strange)):
        if keys:
            raise UserError(
                f"{shown(path)} does not fit the network: it {what} {_some(keys)}; the network's "
                f"own names are like {next(iter(own))!r}"
            )
    for key, value in found.items():
        if value.shape != own[key].shape:
            raise UserError(
                f"{shown(path)} does not fit the network: {key} is {list(value.shape)} in the file "
                f"and {list(own[key].shape)} in the network"
            )
    net.load_state_dict(found, strict=False)


def save_weights(net: nn.Module, path: Path) -> None:
    """Write the state dict as safetensors, whole or not at all."""
    # Clones, as safetensors refuses tensors that share memory.
    state = {key: value.detach().cpu().clone() for key, value in net.state_dict().items()}
    try:
        write_atomically(path, safe.save(state))
    except OSError as error:
        raise UserError(f"cannot write {shown(path)}: {error.strerror}; choose another") from None


@torch.no_grad()
def check_accepts(net: nn.Module, x: Tensor) -> None:
    """Whether the network can take such inputs at all."""
    try:
        with mode(net, training=False):
            net(x)
    except Exception as error:
        raise UserError(
            f"the network cannot take images of {list(x.shape[1:])}: {_said(error)}; see "
            "--image-size, and --mean and --std for the number of channels"
        ) from error


def _factory(where: str) -> Callable[[], Any]:
    module, _, name = where.partition(":")
    if not module or not name.isidentifier():
        raise UserError(f"--net {where}: write it as package.module:factory")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), name, None)
    except Exception as error:
        raise UserError(f"--net {where}: importing {module} raised {_said(error)}") from error
    if not callable(found):
        what = "has no" if found is None else "cannot be called:"
        raise UserError(f"--net {where}: {module} {what} {name}")
    return found  # type: ignore[no-any-return]


def _state(path: Path) -> dict[str, Tensor]:
    with reading(path):
        try:
            return safe.load_file(path)
        except SafetensorError:
            found = _torch_state(path)
    for key in ("state_dict", "model"):
        if isinstance(found.get(key), Mapping):
            found = found[key]
    if not found or not all(isinstance(value, Tensor) for value in found.values()):
        raise UserError(f"{shown(path)} is no state dict: save net.state_dict() alone")
    # DataParallel puts this before every name.
    return {key.removeprefix("module."): value for key, value in found.items()}


def _torch_state(path: Path) -> Mapping[str, Any]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception:  # a stranger's file makes the reader raise nearly anything
        found = None
    if isinstance(found, Mapping):
        return found
    raise UserError(
        f"{shown(path)} holds no weights that can be read: give safetensors, or a state dict saved "
        "by torch.save; the file may be of another kind, or cut short"
    )


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {shown(lines[0])}" if lines else type(error).__name__


def _some(names: list[str], at_most: int = 3) -> str:
    rest = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {rest} more" if rest > 0 else "")
