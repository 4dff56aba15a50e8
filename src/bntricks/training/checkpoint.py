"""The exact state of a training on disk: whole or absent, checked, and never unpickled.

A state is nested dicts of tensors and plain values. On disk it is a line with a SHA-256 of the
rest, a line of JSON for the plain values, and a safetensors block, so that a torn or altered file
is noticed before use. Of a run two generations are kept, in case the newest cannot be read.
"""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import safetensors.torch as safe
import torch
from torch import Tensor

from bntricks.errors import UserError
from bntricks.files import move, parse_json, parse_tensors, regular_bytes, shown, write_atomically

State = dict[str, Any]

MAGIC = b"bntricks checkpoint 1 "
NEWEST, BEFORE = "checkpoint.newest", "checkpoint.before"


class CorruptError(Exception):
    """A file that is not a whole checkpoint."""


class Checkpoints:
    """The checkpoints of one training: saved when due, loaded from the newest that is whole.

    `names` are the files of the newest one and of those before it. `made_with` is what a state
    depends on (configuration, data, versions): a state made with something else is refused, or with
    `discards` removed. `defaults` are the values of options that older states lack. With `writes`
    off, another process writes them.
    """

    def __init__(
        self,
        folder: Path,
        made_with: dict[str, str],
        *,
        names: tuple[str, ...] = (NEWEST, BEFORE),
        discards: bool = False,
        defaults: Mapping[str, str] = MappingProxyType({}),
        seconds: float = 120.0,
        writes: bool = True,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.files = tuple(folder / name for name in names)
        self.made_with, self.defaults = made_with, defaults
        self.discards, self.warn = discards, warn
        self.seconds, self.writes = seconds, writes
        self.saved_at = time.monotonic()

    def read_only(self) -> Checkpoints:
        """Return the same checkpoints for a process that does not write them."""
        other = copy.copy(self)
        other.writes, other.warn = False, lambda text: None
        return other

    def due(self) -> bool:
        return self.writes and time.monotonic() - self.saved_at >= self.seconds

    def save(self, state: State) -> None:
        if not self.writes:
            return
        newest, *before = self.files
        content = pack({"made_with": self.made_with, "state": state})
        try:
            write_atomically(newest, content, keep=next(iter(before), None))
        finally:  # do not try again at once if writing failed
            self.saved_at = time.monotonic()

    def load(self) -> State | None:
        """Load the newest whole state; None if there is none."""
        for path in self.files:
            try:
                content = unpack(regular_bytes(path))
                made_with, state = dict(content["made_with"]), dict(content["state"])
            except FileNotFoundError:
                continue
            except (OSError, CorruptError, KeyError, TypeError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                after = "starting over" if path == self.files[-1] else "trying the one before it"
                self.warn(f"{shown(path)} is not a whole checkpoint ({reason}): {after}")
                if self.writes:  # so that it never replaces a whole one
                    _set_aside(path)
                continue
            if self._is_ours(path, {**self.defaults, **made_with}):
                return state
            self.remove()
        return None

    def exist(self) -> bool:
        return any(path.exists() for path in self.files)

    def remove(self) -> None:
        for path in self.files:
            if path.is_dir():
                _set_aside(path)
            path.unlink(missing_ok=True)
            if _aside(path).is_file():
                _aside(path).unlink()

    def _is_ours(self, path: Path, made_with: dict[str, str]) -> bool:
        keys = sorted({*made_with, *self.made_with})
        differing = [key for key in keys if made_with.get(key) != self.made_with.get(key)]
        if not differing:
            return True
        if self.discards:
            names = ", ".join(differing)
            self.warn(f"{shown(path)} was begun with different {names}: it is discarded")
            return False
        values = (
            f"{key} {made_with.get(key, 'unset')} (now {self.made_with.get(key, 'unset')})"
            for key in differing
        )
        raise UserError(
            f"{path} was made with different values: {', '.join(values)}; go back to what it was "
            "made with, or train again from the start",
            remedy="force",
        )


def versions() -> dict[str, str]:
    """Return the versions of the code that bits depend on."""
    return {"bntricks": version("bntricks"), "torch": str(torch.__version__)}


def _set_aside(path: Path) -> None:
    """Rename what is not a checkpoint: it may be a folder, or somebody else's file."""
    move(path, _aside(path))


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.refused")


def pack(state: State) -> bytes:
    """Pack a state into bytes that begin with their checksum."""
    tensors: dict[str, Tensor] = {}
    plain = json.dumps(_take_tensors(state, "", tensors))
    body = plain.encode() + b"\n" + safe.save(tensors)
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unpack(content: bytes) -> State:
    """Read the state from bytes that `pack` made; others are a CorruptError."""
    head, _, body = content.partition(b"\n")
    if not head.startswith(MAGIC):
        raise CorruptError("it does not begin like a checkpoint")
    if head.removeprefix(MAGIC) != hashlib.sha256(body).hexdigest().encode():
        raise CorruptError("its checksum does not match")
    plain, _, block = body.partition(b"\n")
    try:
        state = _put_tensors(parse_json(plain), "", parse_tensors(block)[0])
    except (KeyError, ValueError) as error:
        raise CorruptError(f"its content is not a state: {error}") from None
    if not isinstance(state, dict):
        raise CorruptError("its content is not a state")
    return state


def digest(state: State) -> str:
    """Hash every bit of a state."""
    return hashlib.sha256(pack(state)).hexdigest()


_TENSOR = {"tensor": True}
"""Replaces a tensor in the plain values; the tensor's name is the path to this place."""


def _take_tensors(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        # Not only contiguous: views of one storage would be refused.
        tensors[path] = value.detach().cpu().contiguous().clone()
        return _TENSOR
    if isinstance(value, dict):
        return {key: _take_tensors(part, f"{path}/{key}", tensors) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_take_tensors(part, f"{path}/{k}", tensors) for k, part in enumerate(value)]
    return value


def _put_tensors(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if value == _TENSOR:
        return tensors[path]
    if isinstance(value, dict):
        return {key: _put_tensors(part, f"{path}/{key}", tensors) for key, part in value.items()}
    if isinstance(value, list):
        return [_put_tensors(part, f"{path}/{k}", tensors) for k, part in enumerate(value)]
    return value
